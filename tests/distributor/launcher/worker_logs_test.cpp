// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/worker_logs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace shampoo::launcher::test {

using shampoo::test::content_of;
using shampoo::test::TemporaryFolder;
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void write_all(const UniqueFd& descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor.get(), text.data(), text.size());
    if (count <= 0) throw std::runtime_error("write failed");
    text.remove_prefix(count);
  }
}

/// Until all is written.
void finish(WorkerLogs& logs, milliseconds longest = seconds(60)) {
  logs.finish(longest);
  pollfd ended{logs.descriptor(), POLLIN, 0};
  ::poll(&ended, 1, 60'000);
  EXPECT_TRUE(logs.finished());
}

WorkerRanks worker(int local_rank) {
  WorkerRanks ranks;
  ranks.local_rank = local_rank;
  ranks.rank = 10 + local_rank;
  return ranks;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class Logs : public testing::Test {
 protected:
  Logs()
      : out_(::open((temporary_.path() / "out").c_str(), O_RDWR | O_CREAT | O_APPEND, 0600)),
        error_(::open((temporary_.path() / "error").c_str(), O_RDWR | O_CREAT | O_APPEND, 0600)) {
    options_.run_id = "job";
    options_.log_folder = temporary_.path() / "logs";
  }

  LogFolder& folder() {
    if (!folder_) folder_ = std::make_unique<LogFolder>(options_);
    return *folder_;
  }
  Console console() const { return {out_.get(), error_.get()}; }
  std::string shown() const { return content_of(temporary_.path() / "out"); }
  std::string shown_errors() const { return content_of(temporary_.path() / "error"); }
  std::string logged(int local_rank, const char* file) {
    return content_of(folder().worker(0, local_rank) / file);
  }

  TemporaryFolder temporary_;
  UniqueFd out_, error_;
  LaunchOptions options_;
  std::unique_ptr<LogFolder> folder_;
};

TEST_F(Logs, LeaveStreamsAloneUnlessAsked) {
  WorkerLogs logs(options_, folder(), 0, console());
  const WorkerStreams streams = logs.open(worker(0));

  EXPECT_FALSE(streams.out || streams.error);
  EXPECT_FALSE(std::filesystem::exists(folder().worker(0, 0) / "stdout.log"));
}

TEST_F(Logs, RedirectTheChosenStreamsOfTheChosenRanks) {
  options_.redirects.by_local_rank[1] = {.out = true, .error = false};
  WorkerLogs logs(options_, folder(), 0, console());
  EXPECT_FALSE(logs.open(worker(0)).out);
  const WorkerStreams streams = logs.open(worker(1));
  ASSERT_TRUE(streams.out);
  EXPECT_FALSE(streams.error);

  write_all(streams.out, "text");

  EXPECT_EQ(logged(1, "stdout.log"), "text");
  EXPECT_EQ(shown(), "");
}

TEST_F(Logs, TeeWritesFilesAndPrefixedLines) {
  options_.tee.all = {.out = true, .error = true};
  WorkerLogs logs(options_, folder(), 0, console());
  {
    const WorkerStreams first = logs.open(worker(0)), second = logs.open(worker(1));
    write_all(first.out, "one\ntw");
    write_all(second.out, "x\n");
    write_all(second.error, "wrong\n");
    write_all(first.out, "o\nno end");
  }
  finish(logs);

  auto lines = lines_of(shown());
  std::ranges::sort(lines);
  EXPECT_EQ(lines, (std::vector<std::string>{"[default0]:no end", "[default0]:one",
                                             "[default0]:two", "[default1]:x"}));
  EXPECT_EQ(shown_errors(), "[default1]:wrong\n");
  EXPECT_EQ(logged(0, "stdout.log"), "one\ntwo\nno end");
  EXPECT_EQ(logged(1, "stderr.log"), "wrong\n");
}

TEST_F(Logs, FillThePrefixTemplate) {
  options_.tee.all.out = true;
  options_.line_prefix = "<${role_name} $local_rank ${rank} $$ ${other}>";
  WorkerLogs logs(options_, folder(), 0, console());
  write_all(logs.open(worker(2)).out, "x");
  finish(logs);

  EXPECT_EQ(shown(), "<default 2 12 $ ${other}>x\n");
}

TEST_F(Logs, ShowOnlyTheChosenRanks) {
  options_.tee.all.out = true;
  options_.console_local_ranks = {1};
  WorkerLogs logs(options_, folder(), 0, console());
  for (int local_rank : {0, 1}) {
    const WorkerStreams streams = logs.open(worker(local_rank));
    write_all(streams.out, "x\n");
    EXPECT_EQ(static_cast<bool>(streams.error), local_rank == 0) << "errors of others are dropped";
  }
  finish(logs);

  EXPECT_EQ(shown(), "[default1]:x\n");
  EXPECT_EQ(logged(0, "stdout.log"), "x\n");
}

TEST_F(Logs, NeverMixLinesOfDifferentRanks) {
  constexpr int rank_count = 4, line_count = 2000;
  options_.tee.all.out = true;
  WorkerLogs logs(options_, folder(), 0, console());
  std::vector<std::thread> workers;
  for (int rank = 0; rank < rank_count; ++rank) {
    workers.emplace_back([streams = logs.open(worker(rank)), rank] {
      const std::string digit = std::to_string(rank);
      for (int line = 0; line < line_count; ++line) {
        write_all(streams.out, std::string(line % 97, digit[0]));
        write_all(streams.out, digit + "\n");
      }
    });
  }
  for (std::thread& one : workers) one.join();
  workers.clear();
  finish(logs);

  const auto lines = lines_of(shown());
  EXPECT_EQ(lines.size(), static_cast<std::size_t>(rank_count) * line_count);
  for (const std::string& line : lines) {
    ASSERT_TRUE(line.starts_with("[default")) << line;
    ASSERT_EQ(line.find_first_not_of(line[8], 11), std::string::npos) << line;
  }
}

TEST_F(Logs, FinishWhileADescendantHoldsAStream) {
  options_.tee.all.out = true;
  WorkerLogs logs(options_, folder(), 0, console());
  const WorkerStreams held = logs.open(worker(0));
  write_all(held.out, "last words");

  finish(logs, milliseconds(50));

  EXPECT_EQ(shown(), "[default0]:last words\n");
}

TEST_F(Logs, WaitForASlowConsoleAndLoseNothing) {
  constexpr int size = 300'000;                                  // more than all pipes hold
  for (const int flags : {O_CLOEXEC, O_CLOEXEC | O_NONBLOCK}) {  // the latter by another program
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), flags), 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    options_.tee.all.out = true;
    std::optional<WorkerLogs> logs(std::in_place, options_, folder(), 0,
                                   Console{.out = writer.get(), .error = writer.get()});
    std::thread process([streams = logs->open(worker(0))] {
      write_all(streams.out, std::string(size, 'x') + "\n");
    });
    std::string shown;
    std::thread slow_reader([&] {
      std::array<char, 1000> some{};
      pollfd ready{reader.get(), POLLIN, 0};
      for (ssize_t count = 1; count != 0 && ::poll(&ready, 1, 30'000) > 0;) {
        count = ::read(reader.get(), some.data(), some.size());
        if (count > 0) shown.append(some.data(), static_cast<std::size_t>(count));
      }
    });

    process.join();
    finish(*logs);
    logs.reset();
    writer.reset();
    slow_reader.join();

    EXPECT_EQ(std::ranges::count(shown, 'x'), size);
  }
}

TEST_F(Logs, CutVeryLongLines) {
  options_.tee.all.out = true;
  WorkerLogs logs(options_, folder(), 0, console());
  write_all(logs.open(worker(0)).out, std::string(50'000, 'x'));
  finish(logs);
  WorkerLogs more(options_, folder(), 1, console());
  {
    const WorkerStreams streams = more.open(worker(0));
    write_all(streams.out, std::string(100'000, 'y') + "\n\nz\n");
  }
  finish(more);

  const auto lines = lines_of(shown());
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "[default0]:" + std::string(50'000, 'x'));
  EXPECT_EQ(lines[1], "[default0]:" + std::string(65'536, 'y'));
  EXPECT_EQ(lines[2], "[default0]:" + std::string(34'464, 'y'));
  EXPECT_EQ(lines[3], "[default0]:");
  EXPECT_EQ(lines[4], "[default0]:z");
}

TEST_F(Logs, GoOnWhenTheConsoleIsGone) {
  UniqueFd writer;
  {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    writer = UniqueFd(ends[1]);
    const UniqueFd reader(ends[0]);
  }
  options_.tee.all.out = true;
  WorkerLogs logs(options_, folder(), 0, {.out = writer.get(), .error = writer.get()});
  write_all(logs.open(worker(0)).out, "first\nsecond\n");
  finish(logs);

  EXPECT_EQ(logged(0, "stdout.log"), "first\nsecond\n");
}

TEST_F(Logs, LeaveAConsoleThatTakesNoMoreWhenTheyMustAndKeepTheFile) {
  constexpr int size = 100'000;  // more than a pipe holds
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  options_.tee.all.out = true;
  WorkerLogs logs(options_, folder(), 0, {.out = writer.get(), .error = error_.get()});
  std::thread process([streams = logs.open(worker(0))] {
    write_all(streams.out, std::string(size, 'x') + "\n" + std::string(size, 'y') + "\n");
  });
  logs.leave_console(std::chrono::steady_clock::now());

  process.join();
  finish(logs);

  EXPECT_EQ(logged(0, "stdout.log").size(), 2 * size + 2U);
  EXPECT_EQ(shown_errors(),
            "shampoorun: stdout of local rank 0 on the console: it takes no more; the rest is "
            "lost\n");
}

TEST_F(Logs, SayOncePerStreamWhatIsLostOnAFullDisk) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  options_.tee.all.out = true;
  std::filesystem::create_symlink("/dev/full", folder().worker(0, 1) / "stdout.log");
  WorkerLogs logs(options_, folder(), 0, {.out = full.get(), .error = error_.get()});
  for (int local_rank : {0, 1}) {
    const WorkerStreams streams = logs.open(worker(local_rank));
    for (int line = 0; line < 20'000; ++line) write_all(streams.out, "text\n");
  }
  finish(logs);

  auto lines = lines_of(shown_errors());
  std::ranges::sort(lines);
  const std::string end = ": No space left on device; the rest is lost";
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "shampoorun: stdout of local rank 0 on the console" + end,
                       "shampoorun: stdout of local rank 1 on the console" + end,
                       "shampoorun: stdout.log of local rank 1" + end,
                   }));
  EXPECT_EQ(logged(0, "stdout.log").size(), 100'000U);
}

TEST_F(Logs, WithoutAFolderStillTee) {
  options_.log_folder = "/dev/null";
  options_.tee.all.out = true;
  options_.redirects.all.error = true;
  WorkerLogs logs(options_, folder(), 0, console());
  {
    const WorkerStreams streams = logs.open(worker(0));
    write_all(streams.out, "x\n");
    write_all(streams.error, "dropped\n");
  }
  finish(logs);

  EXPECT_EQ(shown(), "[default0]:x\n");
  EXPECT_EQ(shown_errors(), "");
}

TEST_F(Logs, CloseEverythingOnExec) {
  options_.tee.all.out = true;
  options_.redirects.all.error = true;
  WorkerLogs logs(options_, folder(), 0, console());
  const WorkerStreams streams = logs.open(worker(0));

  EXPECT_TRUE(::fcntl(streams.out.get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(::fcntl(streams.error.get(), F_GETFD) & FD_CLOEXEC);
}

}  // namespace
}  // namespace shampoo::launcher::test
