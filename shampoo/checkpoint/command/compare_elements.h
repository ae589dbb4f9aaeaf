// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shampoo/checkpoint/reader.h"

namespace shampoo::checkpoint::command {

/// How two tensors of one dtype and shape differ.
struct ElementDifference {
  std::uint64_t count = 0;          ///< elements whose bytes differ
  std::vector<std::int64_t> index;  ///< of the first of them in row-major order
  std::string in_a, in_b;           ///< that element
  /// Of floating types: the largest |a - b|, and of |a - b| / max(|a|, |b|). A NaN against anything
  /// else is infinitely far away; of two NaNs, and of 0 and -0, nothing.
  std::optional<double> absolute, relative;
};

/// Compares all bytes, however the tensors are cut into pieces; empty if they are equal. Elements
/// of less than a byte, which have no address, can only be compared piece by piece: by checksums,
/// with count 0 and without an index. Keeps 2 MiB. Throws as Reader::read_part() does.
class ElementComparison {
 public:
  ElementComparison(const Reader& a, const Reader& b);
  ~ElementComparison();

  std::optional<ElementDifference> compare(const SavedTensor& a, const SavedTensor& b);

 private:
  class Windows;
  std::unique_ptr<Windows> windows_;
};

}  // namespace shampoo::checkpoint::command
