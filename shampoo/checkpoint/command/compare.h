// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shampoo/checkpoint/command/compare_elements.h"

namespace shampoo::checkpoint::command {

/// Who saved and what of it was compared.
struct ComparedSide {
  std::filesystem::path path;
  std::int64_t step = 0;
  int world = 0;
  std::string library_version, arithmetic;
};

/// A tensor or value that only one side has, or that is not the same. Empty: not there.
struct OtherText {
  std::string name;
  std::optional<std::string> in_a, in_b;
};

struct OtherElements {
  std::string name;
  std::string type;            ///< dtype and shape
  std::uint64_t elements = 0;  ///< of the tensor
  ElementDifference difference;
};

struct Comparison {
  ComparedSide a, b;
  bool steps_count = true;             ///< whether different steps are a difference
  std::vector<OtherText> tensors;      ///< by dtype and shape
  std::vector<OtherElements> content;  ///< of tensors with equal dtypes and shapes
  std::vector<OtherText> values;
  std::uint64_t equal_tensors = 0, equal_values = 0;

  bool equal() const;
};

/// Compares tensors and values whose names begin with `prefix`, and the steps if it is empty, after
/// a check of all checksums. Memory grows with the manifests, not with the tensors. Throws
/// CheckpointError, std::system_error.
Comparison compare_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                               const std::string& prefix);

}  // namespace shampoo::checkpoint::command
