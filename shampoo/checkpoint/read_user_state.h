// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/checkpoint/read_state.h"
#include "shampoo/checkpoint/snapshot.h"

namespace shampoo::checkpoint {

/// The extras of a checkpoint on their way to the trainer, in host memory.
class ExtrasLoad {
 public:
  /// Reads them. Throws std::invalid_argument for extras that do not fit, unless `strict` is off
  /// for those that are missing or unexpected; CheckpointError, std::system_error.
  ExtrasLoad(const StateReader& state, const Manifest& manifest, const Extras& extras, bool strict);

  /// Writes tensors and values. Waits.
  void replace(Backend& backend, Extras& extras) const;

  const std::vector<std::string>& missing() const { return missing_; }
  const std::vector<std::string>& unexpected() const { return unexpected_; }

 private:
  void read_tensor(const StateReader& state, const ExtraTensor& extra, std::size_t index);
  void read_value(const Manifest& manifest, const std::string& name, const ExtraValue& now);
  void find_unexpected(const Manifest& manifest, const Extras& extras);

  std::map<std::size_t, std::vector<std::byte>> bytes_;  ///< by place in the extras
  std::map<std::string, ExtraValue> values_;
  std::vector<std::string> missing_, unexpected_;
};

}  // namespace shampoo::checkpoint
