// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/element.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/rules/stored.h"

namespace shampoo::checkpoint::command {
namespace {

template <typename Value>
Value read(std::span<const std::byte> element) {
  Value value;
  std::memcpy(&value, element.data(), sizeof(Value));
  return value;
}

template <typename Value>
std::string shortest(Value value) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

std::string hexadecimal_text(std::span<const std::byte> element) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "0x";
  for (const std::byte byte : element) {
    text += digits[std::to_integer<std::size_t>(byte >> 4)];
    text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

}  // namespace

bool is_floating(Dtype dtype) { return type_of(dtype).has_value(); }

double value_of(Dtype dtype, std::span<const std::byte> element) {
  switch (dtype) {
    case Dtype::f64:
      return read<double>(element);
    case Dtype::f32:
      return static_cast<double>(read<float>(element));
    case Dtype::bf16:
      return static_cast<double>(
          kernels::to_float(kernels::Bfloat16{read<std::uint16_t>(element)}));
    case Dtype::f16:
      return static_cast<double>(kernels::to_float(kernels::Float16{read<std::uint16_t>(element)}));
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

std::string element_text(Dtype dtype, std::span<const std::byte> element) {
  switch (dtype) {
    case Dtype::f64:
      return shortest(read<double>(element));
    case Dtype::f32:
    case Dtype::bf16:
    case Dtype::f16:
      return shortest(static_cast<float>(value_of(dtype, element)));
    case Dtype::bool8:
    case Dtype::u8:
      return shortest(static_cast<unsigned>(read<std::uint8_t>(element)));
    case Dtype::i8:
      return shortest(static_cast<int>(read<std::int8_t>(element)));
    case Dtype::i16:
      return shortest(read<std::int16_t>(element));
    case Dtype::u16:
      return shortest(read<std::uint16_t>(element));
    case Dtype::i32:
      return shortest(read<std::int32_t>(element));
    case Dtype::u32:
      return shortest(read<std::uint32_t>(element));
    case Dtype::i64:
      return shortest(read<std::int64_t>(element));
    case Dtype::u64:
      return shortest(read<std::uint64_t>(element));
    default:
      return hexadecimal_text(element);
  }
}

std::string number_text(double value) { return shortest(value); }

}  // namespace shampoo::checkpoint::command
