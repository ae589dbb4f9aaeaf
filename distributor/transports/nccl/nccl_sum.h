// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distributor/communicator.h"

namespace shampoo {

/// As sum_in_order(), on the device: all in its memory, in order with the stream, without waiting.
/// The bits are those of sum_in_order(), but for payloads of NaN. 0 or a code of the CUDA runtime.
int sum_in_order_on(StreamRef stream, const void* parts, int n, std::int64_t count, Type type,
                    double divisor, void* sum);

}  // namespace shampoo
