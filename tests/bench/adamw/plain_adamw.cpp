// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/adamw/plain_adamw.h"

#include <cmath>

namespace shampoo::test {

void PlainAdamW::step(const float* __restrict g, std::int64_t count, float* __restrict w,
                      float* __restrict m, float* __restrict v) const {
  const PlainAdamW c = *this;
  for (std::int64_t i = 0; i < count; ++i) {
    m[i] = m[i] + (1 - c.beta1) * (g[i] - m[i]);
    v[i] = c.beta2 * v[i] + (1 - c.beta2) * g[i] * g[i];
    const float p = m[i] * c.first_correction / (std::sqrt(v[i] * c.second_correction) + c.epsilon);
    w[i] = w[i] - c.learning_rate * (p + c.weight_decay * w[i]);
  }
}

}  // namespace shampoo::test
