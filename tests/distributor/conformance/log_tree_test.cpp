// SPDX-License-Identifier: Apache-2.0
// The files below --log-dir.
#include <algorithm>
#include <set>

#include "tests/distributor/conformance/launcher_conformance.h"

namespace shampoo::launcher::test {

using shampoo::test::content_of;
namespace {

namespace fs = std::filesystem;

class LogTree : public Conformance {
 protected:
  /// All files; without the name of the job's folder, whose end differs.
  std::set<std::string> files() const {
    std::set<std::string> result;
    for (const auto& run : fs::directory_iterator(logs())) {
      EXPECT_TRUE(run.path().filename().string().starts_with("none_")) << run.path();
      for (const auto& entry : fs::recursive_directory_iterator(run.path())) {
        if (entry.is_regular_file()) result.insert(fs::relative(entry.path(), run.path()));
      }
    }
    return result;
  }

  std::string content(const std::string& file) const {
    for (const auto& run : fs::directory_iterator(logs())) return content_of(run.path() / file);
    return "";
  }
};

TEST_P(LogTree, HasTheRedirectedStreamsOfEachAttemptAndWorker) {
  LaunchedJob job(command(workers(2) + Words{"-r", GetParam().redirects, "--max_restarts", "1"},
                          {"print", "attempt=0", "rank=1", "error=no cheese", "attempt=0", "rank=1",
                           "exit=3", "attempt=0", "forever"}));

  EXPECT_EQ(job.wait(), 0) << job.output();
  std::set<std::string> wanted{"attempt_0/1/error.json"};
  for (const char* worker : {"attempt_0/0/", "attempt_0/1/", "attempt_1/0/", "attempt_1/1/"}) {
    for (const std::string& stream : GetParam().redirected) wanted.insert(worker + stream);
  }
  EXPECT_EQ(files(), wanted);
  EXPECT_EQ(job.count("rank 1/2"), 0) << job.output();
  EXPECT_EQ(content("attempt_1/1/stdout.log"),
            "rank 1/2 local 1/2 group 0/1 attempt 1 store True\n");
}

TEST_P(LogTree, HasTheLinesThatTheConsoleShowsWithAPrefix) {
  LaunchedJob job(command(workers(2) + Words{"-t", "1"}, {"print"}));

  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(files(), (std::set<std::string>{"attempt_0/0/stdout.log", "attempt_0/1/stdout.log"}));
  EXPECT_EQ(job.count("[default0]:rank 0/2"), 1) << job.output();
  EXPECT_EQ(job.count("[default1]:rank 1/2"), 1) << job.output();
  EXPECT_TRUE(content("attempt_0/1/stdout.log").starts_with("rank 1/2"));
}

INSTANTIATE_TEST_SUITE_P(Launchers, LogTree, testing::ValuesIn(tested_launchers()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace shampoo::launcher::test
