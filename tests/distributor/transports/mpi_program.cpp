// SPDX-License-Identifier: Apache-2.0
// mpiexec -n N mpi_program scenario
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "distributor/transports/mpi/mpi_interop.h"
#include "tests/distributor/transports/conformance.h"
#include "tests/distributor/transports/mpi_scenarios.h"
#include "tests/support/mpi_counter.h"

namespace shampoo::test {
namespace {

using Counts = std::vector<std::int64_t>;

void conformance() {
  require(has_mpi(), "has_mpi");
  const auto ranks = mpi_communicator();
  require(conform(*ranks) == checksum_of_threads(ranks->rank(), ranks->size()),
          "sums differ from those of threads");
  const auto again = mpi_communicator();  // beside the first
  again->barrier().wait();
  std::printf("rank %d conforms: %s\n", ranks->rank(), ranks->description().c_str());
}

/// MPI's counts end at 7 bytes, so that nearly all takes the way of large counts.
void large_counts() {
  const auto outer = mpi_communicator();
  const auto made = small_counts(std::chrono::minutes(1));
  Communicator& ranks = *made;
  require(conform(ranks) == checksum_of_threads(ranks.rank(), ranks.size()),
          "sums differ from those of threads");
  std::printf("rank %d conforms with large counts\n", ranks.rank());
}

void one_call_each() {
  const auto ranks = mpi_communicator();
  const auto size = static_cast<std::size_t>(ranks->size());
  std::vector<char> data(size);
  std::vector<char> received(size);
  const Counts ones(size, 1);
  std::int64_t before = mpi_collectives();
  const auto once = [&](CollectiveHandle completion, const char* what) {
    completion.wait();
    require(mpi_collectives() == ++before, what);
  };
  once(ranks->all_gather(data.data(), ones), "all_gather: not one MPI collective");
  once(ranks->all_to_all(data.data(), ones, received.data(), ones), "all_to_all: not one");
  once(ranks->broadcast(data.data(), 1, 0), "broadcast: not one");
  once(ranks->barrier(), "barrier: not one");
  std::printf("rank %d: one MPI collective for each\n", ranks->rank());
}

template <typename Call>
bool refused(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

/// The program initialises MPI, not with MPI_THREAD_MULTIPLE, and finalises it.
void interoperation() {
  const MPI_Comm world = MPI_COMM_WORLD;
  require(refused([&] { mpi_communicator_of(&world); }), "before MPI_Init: not refused");
  MPI_Init(nullptr, nullptr);
  {
    const auto ranks = mpi_communicator(MPI_COMM_WORLD);
    ranks->barrier().wait();
    require(refused([] { mpi_communicator_of(nullptr); }), "null: not refused");
    require(refused([] { mpi_communicator(MPI_COMM_NULL); }), "MPI_COMM_NULL: not refused");
    require(refused([] { check_mpi_implementation("another MPI", sizeof(MPI_Comm)); }),
            "another implementation: not refused");
    require(refused([] { check_mpi_implementation(mpi_implementation, 3); }),
            "other handles: not refused");
    std::printf("rank %d works with the caller's MPI\n", ranks->rank());
  }
  MPI_Finalize();
  bool failed = false;
  try {
    mpi_communicator();
  } catch (const CommunicationError&) {
    failed = true;
  }
  require(failed, "after MPI_Finalize: not refused");
}

/// Gathers until rank 1 injects its fault; the others print how they learnt of it.
void suffer(const std::function<void(Communicator&)>& fault) {
  const auto ranks = mpi_communicator();
  ranks->set_deadline(std::chrono::seconds(6));  // and 1.5 s for the others' word
  std::vector<char> data(static_cast<std::size_t>(ranks->size()));
  const Counts counts(data.size(), 1);
  try {
    for (int i = 0; i < 1'000'000; ++i) {
      if (i == 100 && ranks->rank() == 1) fault(*ranks);
      ranks->all_gather(data.data(), counts).wait();
    }
  } catch (const CommunicationError& error) {
    std::string missing;
    for (const int r : error.missing_ranks()) missing += " " + std::to_string(r);
    std::printf("rank %d heard of it, missing:%s; %s\n", ranks->rank(), missing.c_str(),
                error.what());
    std::fflush(stdout);
    bool again = false;
    try {
      (void)ranks->barrier();
    } catch (const CommunicationError& second) {
      again = std::string(second.what()) == error.what();
    }
    require(again, "the failure is not remembered");
    // Time for the others to tell their story before the launcher ends the job.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    throw;
  }
}

const std::map<std::string, std::function<void()>> scenarios{
    {"conformance", conformance},
    {"large_counts", large_counts},
    {"one_call_each", one_call_each},
    {"interoperation", interoperation},
    {"joins_initialised", joins_initialised},
    {"late_wait", late_wait},
    {"failed_start", failed_start},
    {"mismatches", mismatches_found},
    {"killed", [] { suffer([](Communicator&) { raise(SIGKILL); }); }},
    {"stopped_in_split", stopped_in_split},
    {"stopped", [] { suffer([](Communicator&) { raise(SIGSTOP); }); }},
    {"exits", [] { suffer([](Communicator&) { _exit(3); }); }},
    {"aborts", [] { suffer([](Communicator& ranks) { ranks.abort("enough of it"); }); }},
    {"leaves", [] { suffer([](Communicator&) { std::exit(0); }); }},
};

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  try {
    shampoo::test::scenarios.at(argc > 1 ? argv[1] : "")();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_program: %s\n", error.what());
    return 1;
  }
}
