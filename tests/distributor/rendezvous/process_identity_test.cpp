// SPDX-License-Identifier: Apache-2.0
#include "distributor/system/process_identity.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace shampoo {
namespace {

TEST(AProcess, HasEndedOnceItIsAZombie) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const ProcessIdentity own = this_process();
    if (write(ends[1], &own, sizeof(own)) != sizeof(own)) _exit(1);
    for (;;) pause();
  }
  ProcessIdentity identity;
  ASSERT_EQ(read(ends[0], &identity, sizeof(identity)), sizeof(identity));
  EXPECT_EQ(identity.id, child);
  EXPECT_FALSE(has_ended(identity));

  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(has_ended(identity));

  waitpid(child, nullptr, 0);
  EXPECT_TRUE(has_ended(identity));
  close(ends[0]);
  close(ends[1]);
}

TEST(AProcess, IsNotTakenForOneWithItsNumberThatCameBefore) {
  ProcessIdentity identity = this_process();
  EXPECT_NE(identity.machine, 0U);
  EXPECT_FALSE(has_ended(identity));
  ++identity.start;
  EXPECT_TRUE(has_ended(identity));
}

TEST(AProcess, OfAnotherOrAnUnknownMachineIsNotSaidToHaveEnded) {
  ProcessIdentity identity = this_process();
  ++identity.start;
  ++identity.machine;
  EXPECT_FALSE(has_ended(identity));
  identity.machine = 0;
  EXPECT_FALSE(has_ended(identity));
}

}  // namespace
}  // namespace shampoo
