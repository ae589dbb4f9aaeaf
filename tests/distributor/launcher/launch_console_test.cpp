// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <csignal>
#include <string>

#include "distributor/system/unique_fd.h"
#include "launched_job.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::launcher::test {

using shampoo::test::TemporaryFolder;
namespace {

/// A console that takes what a pipe holds and no more.
class StuckConsole {
 public:
  StuckConsole() {
    ::mkfifo(path().c_str(), 0600);
    reader_ = UniqueFd(::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  std::string path() const { return folder_.path() / "console"; }
  bool gets_full() const {
    return comes_true([this] {
      int bytes = 0;
      return ::ioctl(reader_.get(), FIONREAD, &bytes) == 0 && bytes > 60'000;
    });
  }

 private:
  TemporaryFolder folder_;
  UniqueFd reader_;
};

/// The launcher with both streams on that console.
LaunchedJob on(const StuckConsole& console, const std::string& arguments) {
  return LaunchedJob({"/bin/sh", "-c",
                      std::string("exec ") + SHAMPOORUN + " --no-python --log-dir /dev/null " +
                          arguments + " > " + console.path() + " 2>&1"});
}

TEST(LaunchConsole, OfWhichNobodyReadsDoesNotKeepAJobAlive) {
  for (const char* flags : {"", "--tee 1 "}) {
    const StuckConsole console;
    LaunchedJob job = on(console, std::string(flags) + "--shutdown-timeout 600 yes");
    ASSERT_TRUE(console.gets_full());

    job.send(SIGTERM);

    EXPECT_EQ(job.wait(), 1);
    EXPECT_TRUE(job.processes().empty());
  }
}

TEST(LaunchConsole, OfWhichNobodyReadsDoesNotDelayWhatOthersHaveToKnow) {
  const StuckConsole console;
  LaunchedJob job =
      on(console,
         "--shutdown-timeout 600 --nproc-per-node 2 sh -c '[ $RANK = 0 ] && yes; exec sleep 600'");
  ASSERT_TRUE(console.gets_full());
  const auto agents = children_of(job.pid());
  ASSERT_EQ(agents.size(), 1U);
  ASSERT_TRUE(comes_true([&] { return children_of(agents[0]).size() == 2; }));

  kill(children_of(agents[0])[1], SIGKILL);

  EXPECT_TRUE(comes_true([&] { return children_of(agents[0]).empty(); })) << "the other one";
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 1);
}

}  // namespace
}  // namespace shampoo::launcher::test
