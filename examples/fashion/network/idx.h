// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace fashion {

/// An array of bytes as an IDX file holds it: its sizes, then its elements, the last index fastest.
struct IdxArray {
  std::vector<std::int64_t> sizes;
  std::vector<std::uint8_t> bytes;
};

/// Reads an IDX file of bytes, gzipped or not, with `order` dimensions.
/// Throws std::runtime_error that names the file and what is wrong.
IdxArray read_idx(const std::filesystem::path& file, int order);

}  // namespace fashion
