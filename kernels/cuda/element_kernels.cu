// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/apply.h"
#include "kernels/cuda/filter.h"
#include "kernels/cuda/scan.h"
#include "kernels/cuda/start_on_device.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/update.h"

namespace shampoo::kernels::cuda {

template int start(std::int64_t, const ScanPiece<float>&, void*);
template int start(std::int64_t, const ScanPiece<double>&, void*);
template int start(std::int64_t, const Judge&, void*);
template int start(std::int64_t, const Admit&, void*);
template int start(std::int64_t, const Compare&, void*);
template int start(std::int64_t, const ReadValues&, void*);
template int start(std::int64_t, const FilterPiece<float>&, void*);
template int start(std::int64_t, const FilterPiece<double>&, void*);
template int start(std::int64_t, const SumPieces&, void*);
template int start(std::int64_t, const UpdatePiece<float>&, void*);
template int start(std::int64_t, const UpdatePiece<double>&, void*);
template int start(std::int64_t, const ApplyPiece&, void*);

}  // namespace shampoo::kernels::cuda
