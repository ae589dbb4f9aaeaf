// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/cpu/threads/pool.h"
#include "tests/support/models.h"

namespace shampoo::test {

/// Measures what a machine does, one try at a time: on a machine that others use, too, tries are to
/// alternate with what is compared with them. BLAS must have been set to one thread per call.
class MachineMeter {
 public:
  explicit MachineMeter(int threads);
  double flops_per_second();  ///< sgemm of 1024 x 1024 matrices, one call on every thread
  double bytes_per_second();  ///< a[i] += b[i] over 64 MiB arrays, one pair on every thread

 private:
  struct Operands {
    std::vector<float> a, c, x, y;
  };

  template <typename Body>
  double seconds_of(const Body& body);

  kernels::Pool pool_;
  std::vector<Operands> operands_;  ///< of each thread
};

/// What a plain step cannot do without, in float32 with Adam grafting.
struct Work {
  double flops = 0;  ///< half of a symmetric product for factors, full products with roots
  double bytes = 0;  ///< gradient, root: read once; value, moments, factor: read and written
};

Work plain_step_work(const Model& model, std::int64_t block_size);

}  // namespace shampoo::test
