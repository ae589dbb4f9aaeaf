// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "kernels/cuda/apply.h"
#include "kernels/cuda/eigen_kernels.h"
#include "kernels/cuda/filter.h"
#include "kernels/cuda/gram.h"
#include "kernels/cuda/half_gram.h"
#include "kernels/cuda/half_panels.h"
#include "kernels/cuda/mode_product.h"
#include "kernels/cuda/pair_kernels.h"
#include "kernels/cuda/scan.h"
#include "kernels/cuda/square_kernels.h"
#include "kernels/cuda/square_products.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/symmetric_kernels.h"
#include "kernels/cuda/update.h"

namespace shampoo::kernels::cuda {

/// Every kernel of the library.
using Kernel = std::variant<
    // one round per operation
    ScanPiece<float>, ScanPiece<double>, Judge, Admit, Compare, ReadValues, FilterPiece<float>,
    FilterPiece<double>, SumPieces, UpdatePiece<float>, UpdatePiece<double>, ApplyPiece,
    GatherGradients<float>, GatherGradients<double>, DirectionNorms<float>, DirectionNorms<double>,
    SumDirectionNorms, LoadFactors, StoreRoots, IdentityRoots, Combine, MeasureParts,
    MeasureMatrices, GuardMatrices, ReportMatrices, RootSpectrum, ScaleVectors, Rescale, Normalize,
    FindShifts, Damp, JudgeIdentity, Weigh, SplitHalves,
    // fused multiply-adds
    HalfGram, Gram<float, 64>, Gram<float, 128>, Gram<double, 64>, ModeProduct<float, 64>,
    ModeProduct<float, 128>, ModeProduct<double, 64>, SquareProduct<float, 64>,
    SquareProduct<float, 128>, SquareProduct<double, 64>, SquareGram<float, 64>,
    SquareGram<float, 128>, SquareGram<double, 64>, SymmetricProduct<float, 64>,
    SymmetricProduct<double, 64>>;

}  // namespace shampoo::kernels::cuda
