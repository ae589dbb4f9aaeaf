// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shampoo::grouping {

/// The shortest text that reads back as the same number, in every locale: 0.1, 1e-08, inf, nan.
std::string exact_text(double number);

/// Sixteen lower-case hexadecimal digits.
std::string hexadecimal(std::uint64_t number);

/// Empty unless `text` is what hexadecimal() gives.
std::optional<std::uint64_t> from_hexadecimal(std::string_view text);

/// A count with a comma at every third digit: 12,345.
std::string count_text(std::int64_t count);

/// A count with its noun: "1 block", "2,000 blocks".
std::string counted(std::int64_t count, std::string_view noun);

/// Bytes with one decimal and a binary unit: 1.5 MiB.
std::string bytes_text(std::uint64_t bytes);

/// "(3, 4)"
std::string shape_text(std::span<const std::int64_t> shape);

/// a / b with three decimals, rounded to the nearest; "-" where b is 0.
std::string ratio_text(std::int64_t a, std::int64_t b);

}  // namespace shampoo::grouping
