// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/transports/mpi_scenarios.h"

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "distributor/rendezvous/join.h"
#include "distributor/transports/mpi/mpi.h"
#include "distributor/transports/mpi/mpi_transport.h"
#include "kernels/backend.h"
#include "tests/distributor/transports/conformance.h"
#include "tests/distributor/transports/mismatch.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

bool types_fail = false;      ///< whether MPI refuses to make datatypes
bool stops_in_split = false;  ///< whether this process is stopped when it splits

void check_joined(const char* what) {
  const auto backend = cpu_backend();
  const auto ranks = join(*backend, {.connect_deadline = 20s, .deadline = 20s});
  int rank = 0, size = 0, finalized = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  require(ranks->rank() == rank && ranks->size() == size, what);
  ranks->barrier().wait();
  MPI_Finalized(&finalized);
  require(!finalized, "MPI was finalised");
}

void forget_launcher() {
  std::vector<std::string> names;
  for (char** next = environ; *next != nullptr; ++next) {
    const std::string_view line = *next;
    for (const std::string_view begin : {"OMPI_", "PMI", "PMIX_", "MPI_", "HYDRA_"})
      if (line.starts_with(begin)) names.emplace_back(line.substr(0, line.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

}  // namespace

std::unique_ptr<Communicator> small_counts(std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  return make_mpi_communicator(
      duplicate_comm(MPI_COMM_WORLD, end), end, deadline,
      [](std::unique_ptr<CollectiveTransport> transport) {
        return std::make_unique<Communicator>(std::move(transport));
      },
      7);
}

void joins_initialised() {
  MPI_Init(nullptr, nullptr);
  check_joined("under mpirun: not the ranks of MPI");
  forget_launcher();
  check_joined("under no known launcher: not the ranks of MPI");
  const auto backend = cpu_backend();
  require(join(*backend, {.launcher = Launcher::one_rank})->size() == 1, "one rank: not one");
  MPI_Finalize();
}

void late_wait() {
  const auto ranks = mpi_communicator();
  ranks->set_deadline(1s);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks->size()), 32 << 20);
  std::vector<char> data(counts.size() * (32 << 20));
  ranks->all_gather(data.data(), counts).wait();  // not the first of its kind
  if (ranks->rank() != 0) std::this_thread::sleep_for(1700ms);
  CollectiveHandle gather = ranks->all_gather(data.data(), counts);
  if (ranks->rank() == 0) std::this_thread::sleep_for(1500ms);
  gather.wait();
  std::printf("rank %d waited late\n", ranks->rank());
}

void mismatches_found() {
  for (const Mismatch& mismatch : mismatches()) {
    const auto ranks = mpi_communicator();
    const std::string wrong = check_mismatch(*ranks, mismatch, 10s);
    require(wrong.empty(), mismatch.name + ": " + wrong);
  }
  // Calls that are not the first of their kind compare nothing when they begin.
  const auto ranks = mpi_communicator();
  std::vector<float> data(300);
  const std::vector<std::int64_t> counts(3, 64);
  const auto gather = [&] { ranks->all_gather(data.data(), counts).wait(); };
  const auto average = [&] { ranks->average({{data.data(), 48}}); };
  std::string text;
  try {
    for (int i = 0; i < 3; ++i) {
      gather();
      average();
    }
    if (ranks->rank() == 1)
      average();
    else
      gather();
  } catch (const CommunicationError& error) {
    text = error.what();
  }
  for (const char* part : {"rank 1 is in all_to_all of 192 bytes (collective 10, average)",
                           "ranks 0 and 2 are in all_gather of 192 bytes (collective 10)"})
    require(text.find(part) != std::string::npos, "known calls: " + text);
  MPI_Finalize();
}

void stopped_in_split() {
  constexpr auto deadline = 4s;
  const auto ranks = mpi_communicator(deadline);
  stops_in_split = ranks->rank() == 1;
  const auto start = std::chrono::steady_clock::now();
  try {
    ranks->split(0, ranks->rank());
  } catch (const CommunicationError& error) {
    const bool in_time = std::chrono::steady_clock::now() - start < deadline + 2s;
    std::printf("rank %d: split ended %s: %s\n", ranks->rank(), in_time ? "in time" : "late",
                error.what());
    std::fflush(stdout);
    std::this_thread::sleep_for(1500ms);  // for the others to tell theirs
    throw;
  }
}

void failed_start() {
  const auto world = mpi_communicator();
  {
    // Its counts end at 7 bytes, so that starting makes datatypes.
    const auto made = small_counts(1min);
    Communicator& ranks = *made;
    const auto keep_alive = std::make_shared<const int>(0);
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks.size()), 8);
    std::vector<char> data(8 * counts.size());
    types_fail = true;
    bool failed = false;
    try {
      (void)ranks.all_gather(data.data(), counts, {.keep_alive = keep_alive});
    } catch (const CommunicationError& error) {
      failed = std::string(error.what()).find("MPI_Type_create_struct") != std::string::npos;
    }
    types_fail = false;
    require(failed, "it did start");
    require(keep_alive.use_count() == 1, "an operation that did not start holds its lease");
  }
  world->barrier().wait();
  // The library leaves it out after a failure, and mpirun would take offence.
  MPI_Finalize();
}

}  // namespace shampoo::test

extern "C" int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  if (shampoo::test::stops_in_split) raise(SIGSTOP);
  return PMPI_Comm_split(comm, color, key, made);
}

extern "C" int MPI_Type_create_struct(int count, const int* lengths, const MPI_Aint* begins,
                                      const MPI_Datatype* types, MPI_Datatype* made) {
  if (shampoo::test::types_fail) return MPI_ERR_TYPE;
  return PMPI_Type_create_struct(count, lengths, begins, types, made);
}
