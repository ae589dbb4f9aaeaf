// SPDX-License-Identifier: Apache-2.0
// The whole environment of each worker, under each launcher.
#include <unistd.h>

#include "tests/distributor/conformance/launcher_conformance.h"

namespace shampoo::launcher::test {
namespace {

struct Place {
  int rank = 0, size = 1, local_rank = 0, local_size = 1, node = 0, nodes = 1;
};

class WorkerEnvironment : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    if (!IsSkipped()) std::filesystem::create_directory(written());
  }

  std::string written() const { return folder() / "environments"; }
  Words write() const { return {"environment=" + written()}; }

  /// What `rank` has and this process has not. Without the folder of the logs, whose name differs.
  Environment added(int rank) const {
    std::vector<std::string> lines;
    std::ifstream file(written() + "/" + std::to_string(rank), std::ios::binary);
    for (std::string line; std::getline(file, line, '\0');) lines.push_back(line);
    std::vector<const char*> pointers;
    for (const std::string& line : lines) pointers.push_back(line.c_str());
    pointers.push_back(nullptr);
    Environment result = read_environment(pointers.data());
    for (const auto& variable : read_environment(environ)) {
      if (result[variable.first] == variable.second) result.erase(variable.first);
    }
    result.erase("LAUNCHED_JOB");
    std::string& path = result["TORCHELASTIC_ERROR_FILE"];
    const std::string before = logs() + "/" + result["TORCHELASTIC_RUN_ID"] + "_";
    EXPECT_TRUE(path.starts_with(before)) << path << " does not begin with " << before;
    path.erase(0, std::min(path.size(), path.find('/', before.size())));
    return result;
  }

  Environment expected(const Place& place) const {
    Environment result = GetParam().own_variables;
    const auto set = [&](const char* name, int value) { result[name] = std::to_string(value); };
    set("RANK", place.rank);
    set("WORLD_SIZE", place.size);
    set("LOCAL_RANK", place.local_rank);
    set("LOCAL_WORLD_SIZE", place.local_size);
    set("GROUP_RANK", place.node);
    set("GROUP_WORLD_SIZE", place.nodes);
    set("ROLE_RANK", place.rank);
    set("ROLE_WORLD_SIZE", place.size);
    result.insert({{"ROLE_NAME", "default"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", port()},
                   {"TORCHELASTIC_RESTART_COUNT", "0"},
                   {"TORCHELASTIC_MAX_RESTARTS", "0"},
                   {"TORCHELASTIC_RUN_ID", "none"},
                   {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
    result["TORCHELASTIC_ERROR_FILE"] =
        "/attempt_0/" + std::to_string(place.local_rank) + "/error.json";
    if (place.local_size > 1) result["OMP_NUM_THREADS"] = "1";
    return result;
  }

  /// Of one of two workers: the address, the port and the name of the job are not given ones.
  void expect_names_of_its_own(int rank) const {
    Environment environment = added(rank);
    EXPECT_EQ(environment["MASTER_ADDR"], "localhost");
    EXPECT_GT(environment["TORCHELASTIC_RUN_ID"].size(), 10U);
    environment.erase("SHAMPOO_JOB_SECRET");
    Environment wanted = expected({rank, 2, rank, 2, 0, 1});
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}) {
      wanted[name] = environment[name];
    }
    EXPECT_EQ(environment, wanted);
  }
};

TEST_P(WorkerEnvironment, OfOneWorkerHasItsPlaceAndTheStore) {
  LaunchedJob job(command(workers(1), write()));

  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(added(0), expected({.rank = 0}));
}

TEST_P(WorkerEnvironment, OfThreeWorkersHasTheirPlacesTheRoleAndTheRestarts) {
  LaunchedJob job(
      command(workers(3) + Words{"--role", "trainer", "--max_restarts", "2", "--rdzv_id", "seven"},
              write()));

  EXPECT_EQ(job.wait(), 0) << job.output();
  for (int rank = 0; rank < 3; ++rank) {
    Environment environment =
        expected({.rank = rank, .size = 3, .local_rank = rank, .local_size = 3});
    environment["ROLE_NAME"] = "trainer";
    environment["TORCHELASTIC_MAX_RESTARTS"] = "2";
    environment["TORCHELASTIC_RUN_ID"] = "seven";
    EXPECT_EQ(added(rank), environment);
  }
}

TEST_P(WorkerEnvironment, OfTwoNodesCountsTheRanksOverBoth) {
  LaunchedJob first(command(node(0, 2), write() + Words{"store"}));
  LaunchedJob second(command(node(1, 1), write() + Words{"store"}));

  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(first.count("counter 3") + second.count("counter 3"), 1) << "not one store";
  const int size = 3, nodes = 2;
  for (const Place& place : {Place{0, size, 0, 2, 0, nodes}, Place{1, size, 1, 2, 0, nodes},
                             Place{2, size, 0, 1, 1, nodes}}) {
    EXPECT_EQ(added(place.rank), expected(place));
  }
}

TEST_P(WorkerEnvironment, OfAJobWithoutAnAddressNamesAStoreOfItsOwn) {
  if (!GetParam().finds_a_port) GTEST_SKIP() << "takes ports that may be taken: 29400, 29500";
  for (const Words& flags : {Words{}, Words{"--standalone"}}) {
    LaunchedJob job(command(flags + Words{"--nproc_per_node", "2"}, write() + Words{"store"}));

    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_EQ(job.count("counter 2"), 1) << job.output();
    expect_names_of_its_own(0);
    expect_names_of_its_own(1);
  }
}

INSTANTIATE_TEST_SUITE_P(Launchers, WorkerEnvironment, testing::ValuesIn(tested_launchers()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace shampoo::launcher::test
