// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/tensor_entry.h"

namespace shampoo::checkpoint {

/// The JSON header of a safetensors file.
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;                          ///< tensors in the order of their data
  std::map<std::string, std::string, std::less<>> metadata;  ///< entries of __metadata__
};

/// Parses a header, followed by `data_bytes` bytes of data, and checks every rule of the format: it
/// is UTF-8 and JSON of the expected form, from '{' on, with no key twice and no field that the
/// format does not know; dtypes are known, sizes neither overflow nor end inside a byte and fit
/// their ranges; the ranges cover the data without a hole, an overlap or a byte beyond.
///
/// Refused although the format allows them: sides of 2^63 and more, shapes of more than 1024 sides,
/// white space before the header. Throws CheckpointError, without the file's name.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes);

}  // namespace shampoo::checkpoint
