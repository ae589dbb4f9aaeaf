// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "shampoo/checkpoint/format/dtype.h"

namespace shampoo::checkpoint::command {

/// Whether value_of() knows the type: F16, BF16, F32, F64.
bool is_floating(Dtype dtype);

/// The value of an element of a floating type, exactly. Of others: NaN.
double value_of(Dtype dtype, std::span<const std::byte> element);

/// Floating types with as many digits as tell all values apart, whole numbers exactly, others as
/// the hexadecimal digits of their bytes, the lowest byte first.
std::string element_text(Dtype dtype, std::span<const std::byte> element);

/// "0.25", "1e-10", "inf": the shortest text that is this number again.
std::string number_text(double value);

}  // namespace shampoo::checkpoint::command
