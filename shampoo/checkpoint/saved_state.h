// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {

/// Finds tensors of a checkpoint by name and puts them together: see SavedState.
class SavedStateReader {
 public:
  SavedStateReader(const std::filesystem::path& folder, Checksums checksums);

  const Manifest& manifest() const { return reader_.manifest(); }
  const std::vector<ParameterState>& parameters() const { return described_; }
  std::vector<SavedTensorInfo> tensors() const;
  std::optional<SavedTensor> find(std::string_view name) const;
  SavedTensor read(const SavedUserTensor& tensor) const;

 private:
  /// A block of a slot; of a slot with a number for each element all of them.
  struct Place {
    const SavedParameter& parameter;
    const SavedSlot& slot;
    std::int64_t block = 0;
  };

  std::optional<Place> place_of(const SavedParameter& parameter, std::string_view rest) const;
  const SavedSlot* slot_of(const SavedParameter& parameter, std::string_view name) const;
  /// Its scales, if it has some.
  const SavedSlot* scales_of(const Place& place) const;
  SavedTensorInfo describe(const Place& place) const;
  SavedTensor read_elements(const Place& place) const;
  SavedTensor read_matrix(const Place& place) const;
  std::vector<std::byte> read_block(const Place& place) const;

  Reader reader_;
  Checksums checksums_;
  std::vector<ParameterState> described_;
  std::map<std::string_view, const SavedParameter*> parameters_;
};

}  // namespace shampoo::checkpoint
