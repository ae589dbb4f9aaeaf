// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/protocol/one_collective.h"
#include "tests/support/mpi_counter.h"

int main() { return shampoo::test::check_one_collective(shampoo::test::mpi_collectives); }
