// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/threads/thread_count.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "kernels/backend.h"

namespace shampoo {

namespace kernels {

namespace {

/// The number with which a text begins; 0 without one.
int number_of(const char* text) {
  int number = 0;
  if (text) std::from_chars(text, text + std::strlen(text), number);
  return std::max(0, number);
}

/// Empty if it is not known.
cpu_set_t mask_of(pid_t process) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(process, sizeof mask, &mask) != 0) CPU_ZERO(&mask);
  return mask;
}

}  // namespace

int thread_count(const ThreadSources& sources) {
  if (const int threads = number_of(sources.openmp)) return std::min(threads, 1024);
  const int ranks = sources.bound ? 1 : std::max(1, number_of(sources.local_size));
  return std::clamp(sources.processors / ranks, 1, 1024);
}

ThreadSources thread_sources() {
  const cpu_set_t mine = mask_of(0), launchers = mask_of(getppid());
  ThreadSources sources{.openmp = std::getenv("OMP_NUM_THREADS"),
                        .processors = CPU_COUNT(&mine),
                        .bound = CPU_COUNT(&mine) < CPU_COUNT(&launchers)};
  // torchrun and shampoorun, Open MPI, MPICH.
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    if (!sources.local_size) sources.local_size = std::getenv(name);
  return sources;
}

}  // namespace kernels

int default_threads() { return kernels::thread_count(kernels::thread_sources()); }

}  // namespace shampoo
