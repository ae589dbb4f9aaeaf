// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/bench/scaling_model.h"

namespace shampoo::test {

/// What the CPU backend reaches on this machine with matrices of this side: products and roots in
/// float32, as many of each at a time as there are threads, and a[i] += b[i] over long arrays. The
/// best of a few tries. Takes seconds for a side of 1024.
KernelRates measure_rates(int threads, std::int64_t side);

}  // namespace shampoo::test
