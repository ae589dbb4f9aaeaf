// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint/storage/file.h"

namespace shampoo::checkpoint {

/// The text of a header, byte after byte, never all of it in memory. What would make a JSON reader
/// grow or stop early throws CheckpointError: strings and other words that are too long, NUL bytes,
/// and a first byte other than '{'.
class HeaderText {
 public:
  static constexpr std::uint64_t longest_string = std::uint64_t{1} << 20;  ///< in bytes
  static constexpr std::uint64_t longest_number = 64;                      ///< in bytes

  /// Reads the bytes [header_begin, end) of `file`, which must outlive this object. What comes
  /// before them, already read, goes into the checksum first.
  HeaderText(const File& file, std::uint64_t end, std::span<const std::byte> before);

  bool done() const { return position_ == end_; }
  /// The byte at position().
  char front();
  void advance();
  /// In the file.
  std::uint64_t position() const { return position_; }
  /// Of the file up to the end of what was read so far.
  std::uint64_t checksum() const { return checksum_.value(); }

 private:
  void fill();
  void examine(char byte);

  const File& file_;
  std::uint64_t position_, end_;
  std::uint64_t word_begin_ = header_begin;  ///< of a string, a number or a mark
  bool in_string_ = false, escaped_ = false;
  std::size_t next_ = 0, filled_ = 0;
  std::array<std::byte, 1 << 16> buffer_;
  Checksum checksum_;
};

/// Walks through a HeaderText; a default one is the end.
class HeaderCursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  HeaderCursor() = default;
  explicit HeaderCursor(HeaderText& text) : text_(&text) {}

  char operator*() const { return text_->front(); }
  HeaderCursor& operator++() {
    text_->advance();
    return *this;
  }
  bool operator==(const HeaderCursor& other) const { return at_end() == other.at_end(); }
  bool operator!=(const HeaderCursor& other) const { return !(*this == other); }

 private:
  bool at_end() const { return text_ == nullptr || text_->done(); }

  HeaderText* text_ = nullptr;
};

}  // namespace shampoo::checkpoint
