// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::test {

/// Calls so far, in this process, of MPI_Iallgatherv, MPI_Ialltoallw, MPI_Ibcast, MPI_Ibarrier,
/// MPI_Allgather, MPI_Allgatherv, MPI_Allreduce, MPI_Bcast and MPI_Barrier, whoever made them; of
/// no others. The program's own definitions count: link mpi_counter.cpp as an object.
std::int64_t mpi_collectives();

}  // namespace shampoo::test
