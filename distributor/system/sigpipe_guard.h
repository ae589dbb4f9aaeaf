// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <cerrno>
#include <csignal>

namespace shampoo {

/// While it lives, writing to a connection that the other side has closed fails, and does not end
/// the process: SIGPIPE is blocked on this thread, and for ever on threads that it starts. For
/// libraries that write without MSG_NOSIGNAL.
class NoPipeSignal {
 public:
  NoPipeSignal() noexcept {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const int kept = errno;
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = kept;
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace shampoo
