// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/simd/vector_eigenbasis.h"
#include "kernels/cpu/simd/vector_elements.h"
#include "kernels/cpu/simd/vector_matrices.h"
#include "kernels/cpu/simd/vector_resolvents.h"
#include "kernels/cpu/simd/vector_update.h"
#include "kernels/cpu/simd/vector_values.h"

namespace shampoo::kernels {
namespace {

template <typename Real>
constexpr VectorKernels<Real> compiled_kernels{scan<Real>,
                                               gather<Real>,
                                               filter<Real>,
                                               read_filtered<Real>,
                                               graft<Real>,
                                               measure<Real>,
                                               update<Real>,
                                               filter_and_update<Real>,
                                               new_value_norm<Real>,
                                               project_values<Real>,
                                               average_values<Real>,
                                               apply<Real>,
                                               accumulate_tile<Real>,
                                               read_masters<Real>,
                                               read_slot<Real>,
                                               pack_values<Real>,
                                               evaluate<Real>,
                                               squared_norm<Real>,
                                               rank_one<Real>,
                                               blend<Real>,
                                               apply_root<Real>,
                                               sum_resolvents<Real>,
                                               mirror_root<Real>,
                                               widen_root<Real>,
                                               accumulate_squares<Real>,
                                               divide_by_power<Real>,
                                               precondition_gradient<Real>};

}  // namespace
}  // namespace shampoo::kernels
