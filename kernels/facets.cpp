// SPDX-License-Identifier: Apache-2.0
#include "kernels/facets.h"

#include <stdexcept>

namespace shampoo::kernels {

void Backend::precondition_and_update(const PassContext&, const GradientPass&,
                                      std::span<const Stack>, std::span<const Selection>, double*,
                                      const UpdatePass&) {
  throw std::logic_error("precondition_and_update: this backend has none");
}

void Backend::reserve_orthogonalization_and_update(std::span<const Stack>,
                                                   std::span<const PolarPlan>, Type) {
  throw std::logic_error("reserve_orthogonalization_and_update: this backend has none");
}

void Backend::orthogonalize_and_update(const PassContext&, const GradientPass&,
                                       std::span<const Stack>, std::span<const Selection>,
                                       std::span<const PolarPlan>, double*, const UpdatePass&) {
  throw std::logic_error("orthogonalize_and_update: this backend has none");
}

}  // namespace shampoo::kernels
