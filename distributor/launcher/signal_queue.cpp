// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

namespace shampoo::launcher {

namespace {

bool ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// A thread that does not block the signal, such as one that a library started when it was loaded,
/// blocks it from now on and sends it again, for the queue.
void forward(int signal, siginfo_t*, void* context) {
  sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);
  kill(getpid(), signal);
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

SignalQueue::SignalQueue(std::span<const int> signals) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  for (const int signal : signals)
    if (signal != SIGHUP || !ignored(signal)) sigaddset(&wanted, signal);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  // Where SIGCHLD is ignored, children leave no exit code.
  struct sigaction forwards = {};
  forwards.sa_sigaction = forward;
  forwards.sa_flags = SA_SIGINFO | SA_RESTART;
  for (int signal = 1; signal < NSIG; ++signal)
    if (sigismember(&wanted, signal) == 1) sigaction(signal, &forwards, nullptr);
  descriptor_ = UniqueFd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

std::optional<int> SignalQueue::next() {
  signalfd_siginfo info{};
  if (read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace shampoo::launcher
