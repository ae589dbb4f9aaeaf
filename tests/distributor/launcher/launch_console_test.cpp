// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "distributor/system/unique_fd.h"
#include "launched_job.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::launcher::test {

using shampoo::test::TemporaryFolder;
namespace {

/// A console that takes what a pipe holds and no more, until it is read.
class StuckConsole {
 public:
  StuckConsole() {
    ::mkfifo(path().c_str(), 0600);
    reader_ = UniqueFd(::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  std::string path() const { return folder_.path() / "console"; }
  bool gets_full() const {
    const UniqueFd writer(::open(path().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    return comes_true([&] {
      pollfd room{writer.get(), POLLOUT, 0};
      return ::poll(&room, 1, 0) == 0;
    });
  }
  /// All that arrives until the last writer has closed.
  std::string read_all() const {
    ::fcntl(reader_.get(), F_SETFL, 0);
    std::string text;
    std::array<char, 4096> some{};
    for (ssize_t count = 1; count > 0;) {
      count = ::read(reader_.get(), some.data(), some.size());
      if (count > 0) text.append(some.data(), static_cast<std::size_t>(count));
    }
    return text;
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

TEST(LaunchConsole, ThatBlocksBlocksTheWorkersButLosesNoOutput) {
  for (const char* flags : {"", "--tee 1 "}) {
    const StuckConsole console;
    LaunchedJob job = on(console, std::string(flags) + "seq 100000");
    ASSERT_TRUE(console.gets_full());
    EXPECT_FALSE(job.processes().empty());

    const std::string shown = console.read_all();

    EXPECT_EQ(job.wait(), 0);
    const std::string prefix = *flags == '\0' ? "" : "[default0]:";
    std::string expected;
    for (int line = 1; line <= 100'000; ++line) expected += prefix + std::to_string(line) + '\n';
    EXPECT_TRUE(shown == expected) << shown.size() << " bytes, not " << expected.size();
  }
}

TEST(LaunchConsole, ThatBlocksDoesNotKeepWorkersAlive) {
  const StuckConsole console;
  LaunchedJob job =
      on(console,
         "--shutdown-timeout 600 --nproc-per-node 2 sh -c '[ $RANK = 0 ] && yes; exec sleep 600'");
  ASSERT_TRUE(console.gets_full());
  ASSERT_TRUE(comes_true([&] { return children_of(job.pid()).size() == 2; }));

  kill(children_of(job.pid())[1], SIGKILL);

  EXPECT_TRUE(comes_true([&] { return job.processes().size() == 1; })) << "the launcher alone";
  console.read_all();
  EXPECT_EQ(job.wait(), 1);
}

TEST(LaunchConsole, ThatBlocksDoesNotOutlastTheShutdownTimeout) {
  for (const char* flags : {"", "--tee 1 "}) {
    const StuckConsole console;
    LaunchedJob job =
        on(console, std::string(flags) + "--shutdown-timeout 0.1 sh -c 'trap \"\" TERM; exec yes'");
    ASSERT_TRUE(console.gets_full());

    job.send(SIGTERM);

    EXPECT_EQ(job.wait(), 1) << flags;
    EXPECT_TRUE(job.processes().empty()) << flags;
  }
}

TEST(LaunchConsole, ThatBlocksDoesNotOutlastASecondSignal) {
  for (const char* flags : {"", "--tee 1 "}) {
    const StuckConsole console;
    LaunchedJob job =
        on(console, std::string(flags) + "--shutdown-timeout 600 sh -c 'trap \"\" TERM; exec yes'");
    ASSERT_TRUE(console.gets_full());

    EXPECT_TRUE(comes_true([&] {  // those of the first half second are the same signal
      job.send(SIGTERM);
      return job.processes().empty();
    })) << flags;

    EXPECT_EQ(job.wait(), 1) << flags;
  }
}

TEST(LaunchConsole, ThatBlocksAtTheEndOfAJobCanBeLeftByASignal) {
  const StuckConsole console;
  LaunchedJob job = on(console, "--tee 1 seq 10000");
  ASSERT_TRUE(console.gets_full());
  ASSERT_TRUE(comes_true([&] { return children_of(job.pid()).empty(); }));

  job.send(SIGTERM);

  EXPECT_EQ(job.wait(), 1);
}

TEST(LaunchConsole, ThatIsFullIsReportedAndLeavesTheExitCodeToTheWorkers) {
  LaunchedJob job(
      {"/bin/sh", "-c",
       std::string("exec ") + SHAMPOORUN + " --log-dir /dev/null --tee 1 seq 10 > /dev/full"});

  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.output(),
            "shampoorun: stdout of local rank 0 on the console: No space left on device; the rest "
            "is lost\n");
}

TEST(LaunchConsole, ThatIsFullFailsTheHelp) {
  LaunchedJob job({"/bin/sh", "-c", std::string("exec ") + SHAMPOORUN + " --help > /dev/full"});

  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.count("cannot write to standard output"), 1) << job.output();
}

}  // namespace
}  // namespace shampoo::launcher::test
