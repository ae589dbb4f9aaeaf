// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace shampoo {

/// Starts a thread with all signals blocked, so that they are handled by the program's own threads.
/// Throws std::system_error.
template <class Body>
std::thread thread_without_signals(Body&& body) {
  class AllBlocked {
   public:
    AllBlocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~AllBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    AllBlocked(const AllBlocked&) = delete;
    AllBlocked& operator=(const AllBlocked&) = delete;

   private:
    sigset_t before_{};
  };
  const AllBlocked inherited;
  return std::thread(std::forward<Body>(body));
}

}  // namespace shampoo
