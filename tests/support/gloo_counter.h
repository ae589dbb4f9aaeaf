// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::test {

/// Calls so far, in this process, of gloo::allgatherv, alltoallv, broadcast, barrier and allreduce;
/// of no others. The program's own definitions count: link gloo_counter.cpp as an object.
std::int64_t gloo_collectives();

}  // namespace shampoo::test
