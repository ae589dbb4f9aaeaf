// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo::kernels {

/// What the number of threads follows from.
struct ThreadSources {
  const char* openmp = nullptr;      ///< OMP_NUM_THREADS, null if not set
  const char* local_size = nullptr;  ///< ranks on this host, as the launcher says; null if unknown
  int processors = 1;                ///< that this process may run on
  bool bound = false;                ///< whether the launcher gave them to this process alone
};

/// The first number of OMP_NUM_THREADS, at most 1024; otherwise the processors, divided by the
/// ranks of the host unless they are this rank's own. Text that is no number counts as absent.
/// >= 1.
int thread_count(const ThreadSources& sources);

/// Those of this process.
ThreadSources thread_sources();

}  // namespace shampoo::kernels
