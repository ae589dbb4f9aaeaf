// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/dtype.h"

#include <array>
#include <cstddef>

namespace shampoo {

UserTensorData::UserTensorData(const Tensor& tensor)
    : data(tensor.data), dtype(checkpoint::dtype_of(tensor.type)), strides(tensor.strides) {}

namespace checkpoint {
namespace {

constexpr std::array<DtypeFacts, 22> facts{{
    {Dtype::bool8, "BOOL", 8},
    {Dtype::f4, "F4", 4},
    {Dtype::f6_e2m3, "F6_E2M3", 6},
    {Dtype::f6_e3m2, "F6_E3M2", 6},
    {Dtype::u8, "U8", 8},
    {Dtype::i8, "I8", 8},
    {Dtype::f8_e5m2, "F8_E5M2", 8},
    {Dtype::f8_e4m3, "F8_E4M3", 8},
    {Dtype::f8_e8m0, "F8_E8M0", 8},
    {Dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    {Dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    {Dtype::i16, "I16", 16},
    {Dtype::u16, "U16", 16},
    {Dtype::f16, "F16", 16},
    {Dtype::bf16, "BF16", 16},
    {Dtype::i32, "I32", 32},
    {Dtype::u32, "U32", 32},
    {Dtype::f32, "F32", 32},
    {Dtype::c64, "C64", 64},
    {Dtype::f64, "F64", 64},
    {Dtype::i64, "I64", 64},
    {Dtype::u64, "U64", 64},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < facts.size(); ++i)
    if (static_cast<std::size_t>(facts[i].dtype) != i) return false;
  return true;
}
static_assert(in_order());

}  // namespace

std::span<const DtypeFacts> dtypes() { return facts; }

std::string_view name_of(Dtype dtype) { return facts.at(static_cast<std::size_t>(dtype)).name; }

int bits_of(Dtype dtype) { return facts.at(static_cast<std::size_t>(dtype)).bits; }

std::optional<Dtype> dtype_named(std::string_view name) {
  for (const DtypeFacts& known : facts)
    if (known.name == name) return known.dtype;
  return std::nullopt;
}

Dtype dtype_of(Type type) {
  switch (type) {
    case Type::float64:
      return Dtype::f64;
    case Type::bfloat16:
      return Dtype::bf16;
    case Type::float16:
      return Dtype::f16;
    case Type::float32:
      break;
  }
  return Dtype::f32;
}

std::optional<Type> type_of(Dtype dtype) {
  for (const Type type : {Type::float64, Type::float32, Type::bfloat16, Type::float16})
    if (dtype_of(type) == dtype) return type;
  return std::nullopt;
}

}  // namespace checkpoint

}  // namespace shampoo
