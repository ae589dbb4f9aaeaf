// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::test {

/// Collectives that this process has asked Gloo for so far. Counted by the program's own
/// definitions of them, which the linker prefers: link gloo_counter.cpp as an object.
std::int64_t gloo_collectives();

}  // namespace shampoo::test
