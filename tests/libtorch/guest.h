// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <vector>

namespace guest {

/// Processor time between start() and stop(), of the calling thread and of the process.
class CpuTime {
 public:
  void start() {
    process_ -= seconds(RUSAGE_SELF);
    thread_ -= seconds(RUSAGE_THREAD);
  }
  void stop() {
    process_ += seconds(RUSAGE_SELF);
    thread_ += seconds(RUSAGE_THREAD);
  }
  /// False if other threads have worked as well.
  bool is_of_one_thread() const { return process_ < 1.3 * thread_; }

 private:
  static double seconds(int who) {
    rusage use{};
    getrusage(who, &use);
    return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
  }

  double process_ = 0, thread_ = 0;
};

/// Trains over this library's own Gloo or MPI, and prints bits, times, and what was in use.
void train();

/// Goes on from the latest checkpoint of the folder, saves, meets a NaN on the way, and prints the
/// bits. The last rank is killed once if told.
void train_through_faults(const std::string& folder, int steps, bool killed);

std::uint64_t hash_of(const std::vector<float>& values);

/// Prints whether torch's products are right, and how many threads they run on.
void check_products(const char* when);

/// Prints whether torch's ProcessGroupGloo sums over the ranks; needs the variables of torchrun.
void check_process_group();

}  // namespace guest
