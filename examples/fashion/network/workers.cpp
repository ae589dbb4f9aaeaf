// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/workers.h"

#include <stdexcept>
#include <string>

/// Null unless the BLAS that this program is linked with is OpenBLAS.
extern "C" void openblas_set_num_threads(int threads) __attribute__((weak));

namespace fashion {

Workers::Workers(int threads) {
  if (threads < 1 || threads > 1024)
    throw std::invalid_argument("threads: must be from 1 to 1024, got " + std::to_string(threads));
  // Every product runs on the worker that calls it.
  if (openblas_set_num_threads) openblas_set_num_threads(1);
  for (int thread = 1; thread < threads; ++thread)
    team_.emplace_back([this, thread] { serve(thread); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  begin_.notify_all();
  for (std::thread& member : team_) member.join();
}

void Workers::run(int count, const std::function<void(int)>& task) {
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    count_ = count;
    busy_ = static_cast<int>(team_.size());
    ++round_;
  }
  begin_.notify_all();
  for (int i = 0; i < count; i += threads()) task(i);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void Workers::serve(int thread) {
  int served = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    begin_.wait(lock, [&] { return closing_ || round_ != served; });
    if (closing_) return;
    served = round_;
    lock.unlock();
    for (int i = thread; i < count_; i += threads()) (*task_)(i);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace fashion
