// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo::test {

/// What a call threw; "" where it threw nothing. Other exceptions than Error pass.
template <typename Error, typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace shampoo::test
