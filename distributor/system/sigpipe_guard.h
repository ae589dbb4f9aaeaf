// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <cerrno>
#include <csignal>

namespace shampoo {

/// Blocks SIGPIPE on this thread for its lifetime, and permanently on threads started meanwhile, so
/// that writing to a closed connection fails instead of ending the process. For libraries that
/// write without MSG_NOSIGNAL.
class SigpipeGuard {
 public:
  SigpipeGuard() noexcept {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeGuard() {
    const int kept = errno;
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = kept;
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace shampoo
