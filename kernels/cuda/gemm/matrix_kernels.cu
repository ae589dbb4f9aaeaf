// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/basis_kernels.h"
#include "kernels/cuda/gemm/eigen_kernels.h"
#include "kernels/cuda/gemm/factor_root_kernels.h"
#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/cuda/gemm/gram.h"
#include "kernels/cuda/gemm/gram_terms.h"
#include "kernels/cuda/gemm/half_operands.h"
#include "kernels/cuda/gemm/mode_product.h"
#include "kernels/cuda/gemm/moment_kernels.h"
#include "kernels/cuda/gemm/polar_kernels.h"
#include "kernels/cuda/gemm/square_matrix_kernels.h"
#include "kernels/cuda/gemm/symmetric_kernels.h"
#include "kernels/cuda/launch/start_on_device.h"

namespace shampoo::kernels::cuda {

template int start(std::int64_t, const GatherGradients<float>&, void*);
template int start(std::int64_t, const GatherGradients<double>&, void*);
template int start(std::int64_t, const SplitGradients&, void*);
template int start(std::int64_t, const TakeDirections<float>&, void*);
template int start(std::int64_t, const TakeDirections<double>&, void*);
template int start(std::int64_t, const SumDirectionNorms&, void*);
template int start(std::int64_t, const FindSizes&, void*);
template int start(std::int64_t, const UnpackFactors&, void*);
template int start(std::int64_t, const PackRoots&, void*);
template int start(std::int64_t, const UnpackRoots<Float16>&, void*);
template int start(std::int64_t, const UnpackRoots<float>&, void*);
template int start(std::int64_t, const UnpackRoots<double>&, void*);
template int start(std::int64_t, const ScaleOperands&, void*);
template int start(std::int64_t, const NarrowDirections&, void*);
template int start(std::int64_t, const Combine&, void*);
template int start(std::int64_t, const MeasureParts&, void*);
template int start(std::int64_t, const MeasureMatrices&, void*);
template int start(std::int64_t, const FlagMatrices&, void*);
template int start(std::int64_t, const WidenMatrix&, void*);
template int start(std::int64_t, const ShrinkVectors&, void*);
template int start(std::int64_t, const NarrowVectors&, void*);
template int start(std::int64_t, const RootSpectrum&, void*);
template int start(std::int64_t, const ScaleVectors&, void*);
template int start(std::int64_t, const FindShifts&, void*);
template int start(std::int64_t, const Damp&, void*);
template int start(std::int64_t, const CheckIdentity&, void*);
template int start(std::int64_t, const Convert&, void*);
template int start(std::int64_t, const ScaleToUnitNorm<float>&, void*);
template int start(std::int64_t, const ScaleToUnitNorm<double>&, void*);
template int start(std::int64_t, const Embed&, void*);
template int start(std::int64_t, const WeighSingularVectors&, void*);
template int start(std::int64_t, const UseMoments<float>&, void*);
template int start(std::int64_t, const UseMoments<double>&, void*);
template int start(std::int64_t, const MoveBases&, void*);
template int start(std::int64_t, const OrthonormalizeRows&, void*);
template int start(std::int64_t, const SortBasis&, void*);

}  // namespace shampoo::kernels::cuda
