// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/prediction/kernel_assumptions.h"

namespace shampoo::test {

namespace {

constexpr const char* tile_product =
    "tile of this library: scalar loads with tests, one block a processor; whole tiles are "
    "computed";
constexpr const char* leaves_most = "all but a few thread blocks leave at once";
constexpr const char* launch_only = "one block of threads, or one per matrix: its launch";
constexpr const char* mirrored =
    "two tiles of 64 a block, through 17 KB of shared memory, 33 where it also serves float64; 16 "
    "bytes at once";
constexpr const char* packed =
    "two tiles of 64 a block; 16 bytes at once where a matrix is dense, 2 or 4 of triangles, whose "
    "rows are not "
    "aligned";

/// The unit of a phase changes here.
constexpr KernelAssumption assumptions[] = {
    // one step
    {"copy", Unit::none, 1, "host memory is pinned; small"},
    {"ScanTile", Unit::none, 0.65, "sums in fp64 and two trees of 8 barriers beside few bytes"},
    {"FilterTile", Unit::none, 0.8, "a square root and two divisions per element; fp64 sums"},
    {"UpdateTile", Unit::none, 0.8, "8 elements a thread, 32 bytes apart"},
    {"FilterAndUpdateTile", Unit::none, 0.7, "most registers: 384 threads a processor"},
    {"ApplyTile", Unit::none, 0.85, "8 elements a thread, 32 bytes apart"},
    {"TakeDirections", Unit::none, 0.75, "sums in fp64 and a tree of 8 barriers"},
    {"UnpackRoots", Unit::none, 0.7, packed},
    {"ScaleOperands", Unit::none, 1, launch_only},
    {"NarrowDirections", Unit::none, 0.8, "8 elements a thread, 32 bytes apart"},
    {"SplitGradients", Unit::none, 0.65, "accesses of 4 and 2 bytes; a division of 32 bits"},
    {"AddGram", Unit::none, 0.65, "tiles of 64, 17 KB of shared memory; rows that are not aligned"},
    {"GatherGradients", Unit::none, 0.8, leaves_most},
    {"HalfGram", Unit::warp_float16, 0.55,
     "64 flops a byte from L2, whose 5.5 TB/s allow 0.7; of two blocks a processor one adds to the "
     "factor, in 8 rounds of 8 reads and writes, while the other multiplies"},
    {"Gram", Unit::float32, 0.7, tile_product},
    {"ModeProduct", Unit::float32, 0.7, tile_product},
    {"VectorProduct", Unit::none, 0.5,
     "tiles of 64, 18 KB of shared memory; two barriers a tile, and nothing fetched ahead"},
    {"ReduceScan", Unit::none, 1, launch_only},
    {"ScaleTensor", Unit::none, 1, launch_only},
    {"Admit", Unit::none, 1, launch_only},
    {"Compare", Unit::none, 1, launch_only},
    {"SumTiles", Unit::none, 1, launch_only},
    {"SumDirectionNorms", Unit::none, 1, launch_only},
    {"CountDirections", Unit::none, 1, launch_only},
    // products of a library; nothing of the operands is left in L2
    {"product float16", Unit::library_float16, 1, "cuBLASLt on matrix units, batches of side 1024"},
    {"product bfloat16", Unit::library_float16, 1,
     "cuBLASLt on matrix units, batches of side 1024"},
    {"product float32", Unit::library_float32, 1, "cuBLASLt, compute type 32F: no matrix units"},
    {"product float64", Unit::library_float64, 1, "cuBLASLt on matrix units"},
    // a refresh
    {"UnpackFactors", Unit::none, 0.7, packed},
    {"PackRoots", Unit::none, 0.7, packed},
    {"LinearCombination", Unit::none, 0.75, mirrored},
    {"Damp", Unit::none, 0.75, mirrored},
    {"Convert", Unit::none, 0.85, "streams rows, 16 bytes at once"},
    {"Combine", Unit::none, 0.65, "streams rows, 4 bytes at once; a division of 32 bits"},
    {"MeasureParts", Unit::none, 0.8, "streams rows, 16 bytes at once; sums in fp64"},
    {"SymmetricProduct", Unit::float32, 0.7, tile_product},
    {"SquareProduct", Unit::float32, 0.7, tile_product},
    {"MeasureMatrices", Unit::none, 1, launch_only},
    {"FindSizes", Unit::none, 1, launch_only},
    {"FindShifts", Unit::none, 1, launch_only},
    {"CheckIdentity", Unit::none, 1, launch_only},
    {"AddIdentity", Unit::none, 1, launch_only},
};

}  // namespace

const KernelAssumption* assumption_of(const std::string& kernel) {
  for (const KernelAssumption& assumption : assumptions)
    if (kernel == assumption.kernel) return &assumption;
  return nullptr;
}

}  // namespace shampoo::test
