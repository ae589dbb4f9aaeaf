// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/signal_queue.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <latch>
#include <thread>

namespace shampoo::launcher::test {
namespace {

/// Libraries start threads when they are loaded, before anybody can block signals.
TEST(SignalQueue, HoldsSignalsThatAnOlderThreadDoesNotBlock) {
  std::latch received(1);
  std::jthread older([&] { received.wait(); });
  SignalQueue queue(std::array{SIGTERM});

  for (const int signal : {SIGTERM, SIGCHLD, SIGTERM}) {
    kill(getpid(), signal);
    pollfd polled{queue.descriptor(), POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, 60'000), 1);
    EXPECT_EQ(queue.next(), signal);
  }
  EXPECT_EQ(queue.next(), std::nullopt);
  received.count_down();
}

}  // namespace
}  // namespace shampoo::launcher::test
