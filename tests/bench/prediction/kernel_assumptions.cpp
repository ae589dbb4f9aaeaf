// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/prediction/kernel_assumptions.h"

namespace shampoo::test {

namespace {

constexpr const char* tile_product =
    "tile of this library: scalar loads with tests, one block a processor; whole tiles are "
    "computed";
constexpr const char* leaves_most = "all but a few thread blocks leave at once";
constexpr const char* launch_only = "one block of threads, or one per matrix: its launch";
constexpr const char* streams_rows = "streams rows, 16 bytes at once";
constexpr const char* packed =
    "measured; two tiles of 64 a block; 16 bytes at once where a matrix is dense, 2 or 4 of "
    "triangles, whose rows are not aligned";

/// Shares that say so are from kernel times on an H100, those of products, FormedProduct, HalfGram
/// and UnpackRoots on an H200 (tests/bench/README.md); others are estimates.
constexpr KernelAssumption assumptions[] = {
    // one step
    {"copy", Unit::none, 1, "host memory is pinned; small"},
    {"ScanTile", Unit::none, 0.77,
     "measured; sums in fp64 and two trees of 8 barriers beside few bytes"},
    {"FilterTile", Unit::none, 0.88, "measured; 8 elements a thread, 32 bytes apart; fp64 sums"},
    {"UpdateTile", Unit::none, 0.86,
     "measured; 8 elements a thread, 32 bytes apart; 128 registers"},
    {"FilterAndUpdateTile", Unit::none, 0.7, "most registers: 384 threads a processor"},
    {"ApplyTile", Unit::none, 0.85, "8 elements a thread, 32 bytes apart"},
    {"TakeDirections", Unit::none, 0.89,
     "measured; 8 elements a thread, 32 bytes apart; fp64 sums"},
    {"UnpackRoots", Unit::none, 0.7, packed},
    {"ScaleOperands", Unit::none, 1, launch_only},
    {"NarrowDirections", Unit::none, 0.87, "measured; 8 elements a thread, 32 bytes apart"},
    {"SplitGradients", Unit::none, 0.65, "accesses of 4 and 2 bytes; a division of 32 bits"},
    {"AddGram", Unit::none, 0.65, "tiles of 64, 17 KB of shared memory; rows that are not aligned"},
    {"GatherGradients", Unit::none, 0.8, leaves_most},
    {"HalfGram", Unit::matrix_float16, 0.45,
     "measured; panels come from L2, 64 flops a byte, beside the factor's memory; three of ten "
     "tiles "
     "are of vectors: one place of the 64 that are multiplied"},
    {"Gram", Unit::float32, 0.7, tile_product},
    {"ModeProduct", Unit::float32, 0.7, tile_product},
    {"VectorProduct", Unit::none, 0.64,
     "measured; tiles of 64, 18 KB of shared memory; two barriers a tile"},
    {"ReduceScan", Unit::none, 1, launch_only},
    {"ScaleTensor", Unit::none, 1, launch_only},
    {"Admit", Unit::none, 1, launch_only},
    {"Compare", Unit::none, 1, launch_only},
    {"SumTiles", Unit::none, 1, launch_only},
    {"SumDirectionNorms", Unit::none, 1, launch_only},
    {"CountDirections", Unit::none, 1, launch_only},
    // products of a library; nothing of the operands is left in L2
    {"product float16", Unit::matrix_float16, 0.98,
     "measured; cuBLASLt on matrix units, batches of side 1024, whose sums leave L2"},
    {"product bfloat16", Unit::matrix_float16, 0.77,
     "cuBLASLt on matrix units, batches of side 1024, whose sums leave L2"},
    {"product float32", Unit::library_float32, 1, "cuBLASLt, compute type 32F: no matrix units"},
    {"product float64", Unit::library_float64, 1, "cuBLASLt on matrix units"},
    // a refresh
    {"UnpackFactors", Unit::none, 0.8, packed},
    {"PackRoots", Unit::none, 0.68, packed},
    {"FormedProduct", Unit::matrix_float16, 0.6,
     "measured; panels come from L2, 64 flops a byte, and the last round of a launch is not full"},
    {"Damp", Unit::none, 0.85, streams_rows},
    {"Convert", Unit::none, 0.85, streams_rows},
    {"Combine", Unit::none, 0.65, "streams rows, 4 bytes at once; a division of 32 bits"},
    {"MeasureParts", Unit::none, 0.47, "measured; streams rows, 16 bytes at once; sums in fp64"},
    {"SymmetricProduct", Unit::float32, 0.7, tile_product},
    {"SquareProduct", Unit::float32, 0.7, tile_product},
    {"MeasureMatrices", Unit::none, 1, launch_only},
    {"FindSizes", Unit::none, 1, launch_only},
    {"FindShifts", Unit::none, 1, launch_only},
    {"CheckIdentity", Unit::none, 1, launch_only},
};

}  // namespace

const KernelAssumption* assumption_of(const std::string& kernel) {
  for (const KernelAssumption& assumption : assumptions)
    if (kernel == assumption.kernel) return &assumption;
  return nullptr;
}

}  // namespace shampoo::test
