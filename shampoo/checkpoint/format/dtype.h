// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "shampoo/user_state.h"

namespace shampoo::checkpoint {

struct DtypeFacts {
  Dtype dtype;
  std::string_view name;  ///< name in files, such as "F32"
  int bits;               ///< bits of one element
};

std::span<const DtypeFacts> dtypes();

std::string_view name_of(Dtype dtype);
int bits_of(Dtype dtype);
/// Empty for a name that no format knows.
std::optional<Dtype> dtype_named(std::string_view name);

Dtype dtype_of(Type type);
/// Empty where the library computes with nothing alike.
std::optional<Type> type_of(Dtype dtype);

}  // namespace shampoo::checkpoint
