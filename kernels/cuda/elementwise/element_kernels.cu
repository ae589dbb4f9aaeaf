// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elementwise/accumulate.h"
#include "kernels/cuda/elementwise/apply.h"
#include "kernels/cuda/elementwise/average.h"
#include "kernels/cuda/elementwise/evaluate.h"
#include "kernels/cuda/elementwise/filter.h"
#include "kernels/cuda/elementwise/measure.h"
#include "kernels/cuda/elementwise/scan.h"
#include "kernels/cuda/elementwise/step_guard.h"
#include "kernels/cuda/elementwise/update.h"
#include "kernels/cuda/launch/start_on_device.h"

namespace shampoo::kernels::cuda {

template int start(std::int64_t, const ScanTile<float>&, void*);
template int start(std::int64_t, const ScanTile<double>&, void*);
template int start(std::int64_t, const ReduceScan&, void*);
template int start(std::int64_t, const ScaleTensor&, void*);
template int start(std::int64_t, const Admit&, void*);
template int start(std::int64_t, const Compare&, void*);
template int start(std::int64_t, const AccumulateTile<float>&, void*);
template int start(std::int64_t, const AccumulateTile<double>&, void*);
template int start(std::int64_t, const ReadValues&, void*);
template int start(std::int64_t, const FilterTile<float>&, void*);
template int start(std::int64_t, const FilterTile<double>&, void*);
template int start(std::int64_t, const SumTiles&, void*);
template int start(std::int64_t, const GraftTile<float>&, void*);
template int start(std::int64_t, const GraftTile<double>&, void*);
template int start(std::int64_t, const MeasureTile<float>&, void*);
template int start(std::int64_t, const MeasureTile<double>&, void*);
template int start(std::int64_t, const SumPartials&, void*);
template int start(std::int64_t, const UpdateTile<float>&, void*);
template int start(std::int64_t, const UpdateTile<double>&, void*);
template int start(std::int64_t, const CountDirections&, void*);
template int start(std::int64_t, const FilterAndUpdateTile<float>&, void*);
template int start(std::int64_t, const FilterAndUpdateTile<double>&, void*);
template int start(std::int64_t, const NewValueNormTile<float>&, void*);
template int start(std::int64_t, const NewValueNormTile<double>&, void*);
template int start(std::int64_t, const ProjectTile<float>&, void*);
template int start(std::int64_t, const ProjectTile<double>&, void*);
template int start(std::int64_t, const AverageTile<float>&, void*);
template int start(std::int64_t, const AverageTile<double>&, void*);
template int start(std::int64_t, const ApplyTile&, void*);
template int start(std::int64_t, const PackTile&, void*);
template int start(std::int64_t, const EvaluateTile<float>&, void*);
template int start(std::int64_t, const EvaluateTile<double>&, void*);

}  // namespace shampoo::kernels::cuda
