// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shampoo/checkpoint/format/tensor_entry.h"

namespace shampoo::checkpoint {

/// What the header of a safetensors file says, packed: it never needs more memory than its text,
/// however hostile.
class Header {
 public:
  /// Entries come in any order, then seal(). Not after it.
  void add(const TensorEntry& tensor);
  void add_metadata(std::string_view key, std::string_view value);
  /// Throws CheckpointError for names and keys that occur twice, and unless the tensors cover
  /// `data_bytes` without a gap or an overlap.
  void seal(std::uint64_t data_bytes);

  int size() const { return static_cast<int>(tensors_.size()); }
  /// In the order of the data; 0 <= index < size().
  TensorEntry operator[](int index) const;
  /// The index of a tensor.
  std::optional<int> find(std::string_view name) const;
  std::optional<std::string> metadata(std::string_view key) const;

 private:
  using Position = std::uint32_t;

  void put(std::uint64_t number);
  void put(std::string_view text);
  std::uint64_t number_at(Position& position) const;
  std::string text_at(Position& position) const;
  /// Whether the text at `position` comes before, equals or follows the other.
  int compare(Position position, std::string_view text) const;
  int compare(Position position, Position other) const;
  std::pair<std::uint64_t, std::uint64_t> range(Position tensor) const;
  Position name(Position tensor) const;

  void require_cover(std::uint64_t data_bytes) const;
  void index_names();
  void index_metadata();

  std::deque<unsigned char> packed_;
  std::deque<Position> tensors_, metadata_;
  std::vector<int> by_name_;  ///< indices of tensors
};

}  // namespace shampoo::checkpoint
