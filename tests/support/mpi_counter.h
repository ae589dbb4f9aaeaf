// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::test {

/// Collectives that this process has asked MPI for so far, whoever did. Counted by the program's
/// own definitions of them, which the linker prefers: link mpi_counter.cpp as an object.
std::int64_t mpi_collectives();

}  // namespace shampoo::test
