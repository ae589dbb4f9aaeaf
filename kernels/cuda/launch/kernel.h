// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "kernels/cuda/elementwise/accumulate.h"
#include "kernels/cuda/elementwise/apply.h"
#include "kernels/cuda/elementwise/average.h"
#include "kernels/cuda/elementwise/evaluate.h"
#include "kernels/cuda/elementwise/filter.h"
#include "kernels/cuda/elementwise/measure.h"
#include "kernels/cuda/elementwise/scan.h"
#include "kernels/cuda/elementwise/step_guard.h"
#include "kernels/cuda/elementwise/update.h"
#include "kernels/cuda/gemm/basis_kernels.h"
#include "kernels/cuda/gemm/eigen_kernels.h"
#include "kernels/cuda/gemm/factor_root_kernels.h"
#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/cuda/gemm/formed_product.h"
#include "kernels/cuda/gemm/gram.h"
#include "kernels/cuda/gemm/gram_terms.h"
#include "kernels/cuda/gemm/half_gram.h"
#include "kernels/cuda/gemm/half_operands.h"
#include "kernels/cuda/gemm/mode_product.h"
#include "kernels/cuda/gemm/moment_kernels.h"
#include "kernels/cuda/gemm/polar_kernels.h"
#include "kernels/cuda/gemm/square_matrix_kernels.h"
#include "kernels/cuda/gemm/square_products.h"
#include "kernels/cuda/gemm/symmetric_kernels.h"
#include "kernels/cuda/gemm/unpack_roots.h"
#include "kernels/cuda/gemm/vector_product.h"

namespace shampoo::kernels::cuda {

/// Every kernel of the library.
using Kernel = std::variant<
    // one round per operation
    ScanTile<float>, ScanTile<double>, ReduceScan, ScaleTensor, Admit, Compare,
    AccumulateTile<float>, AccumulateTile<double>, ReadValues, FilterTile<float>,
    FilterTile<double>, SumTiles, GraftTile<float>, GraftTile<double>, MeasureTile<float>,
    MeasureTile<double>, SumPartials, UpdateTile<float>, UpdateTile<double>, CountDirections,
    FilterAndUpdateTile<float>, FilterAndUpdateTile<double>, NewValueNormTile<float>,
    NewValueNormTile<double>, ProjectTile<float>, ProjectTile<double>, AverageTile<float>,
    AverageTile<double>, ApplyTile, PackTile, EvaluateTile<float>, EvaluateTile<double>,
    GatherGradients<float>, GatherGradients<double>, SplitGradients, TakeDirections<float>,
    TakeDirections<double>, SumDirectionNorms, FindSizes, UnpackFactors, UnpackRoots<Float16>,
    UnpackRoots<float>, UnpackRoots<double>, ScaleOperands, NarrowDirections, PackRoots, Combine,
    MeasureParts, MeasureMatrices, FlagMatrices, WidenMatrix, ShrinkVectors, NarrowVectors,
    RootSpectrum, ScaleVectors, FindShifts, Damp, CheckIdentity, Convert, ScaleToUnitNorm<float>,
    ScaleToUnitNorm<double>, Embed, WeighSingularVectors, UseMoments<float>, UseMoments<double>,
    MoveBases, OrthonormalizeRows, SortBasis,
    // fused multiply-adds
    AddGram, HalfGram, FormedProduct, Gram<float, 64>, Gram<float, 128>, Gram<double, 64>,
    ModeProduct<float>, ModeProduct<double>, VectorProduct<float>, VectorProduct<double>,
    SquareProduct<float, 64>, SquareProduct<float, 128>, SquareProduct<double, 64>,
    SymmetricProduct<float, 64>, SymmetricProduct<double, 64>>;

}  // namespace shampoo::kernels::cuda
