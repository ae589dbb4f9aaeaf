// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "distributor/launcher/worker_setup.h"

namespace shampoo::launcher::test {
namespace {

LaunchOptions two_workers() {
  LaunchOptions options;
  options.workers = 2;
  options.run_id = "job";
  options.max_restarts = 4;
  return options;
}

WorkerStart third_of_four() {
  WorkerStart start;
  start.ranks = {.local_rank = 0,
                 .local_world_size = 2,
                 .rank = 2,
                 .world_size = 4,
                 .group_rank = 1,
                 .group_world_size = 2,
                 .role_rank = 2,
                 .role_world_size = 4};
  start.store_host = "node0";
  start.store_port = 1234;
  start.attempt = 3;
  start.error_file = "/logs/error.json";
  return start;
}

TEST(WorkerEnvironment, IsThatOfTorchrunAndOurs) {
  Environment environment = worker_environment(two_workers(), third_of_four(), {{"HOME", "/h"}});

  EXPECT_NE(environment["SHAMPOORUN_VERSION"], "");
  environment.erase("SHAMPOORUN_VERSION");
  EXPECT_EQ(environment, (Environment{
                             {"HOME", "/h"},
                             {"RANK", "2"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "0"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "1"},
                             {"GROUP_WORLD_SIZE", "2"},
                             {"ROLE_NAME", "default"},
                             {"ROLE_RANK", "2"},
                             {"ROLE_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "1234"},
                             {"TORCHELASTIC_RESTART_COUNT", "3"},
                             {"TORCHELASTIC_MAX_RESTARTS", "4"},
                             {"TORCHELASTIC_RUN_ID", "job"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_ERROR_FILE", "/logs/error.json"},
                             {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
                             {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                             {"OMP_NUM_THREADS", "1"},
                         }));
}

TEST(WorkerEnvironment, KeepsWhatTheUserChose) {
  const Environment inherited{{"OMP_NUM_THREADS", "8"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}};

  const auto environment = worker_environment(two_workers(), third_of_four(), inherited);

  EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "8");
  EXPECT_EQ(environment.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "3");
  EXPECT_FALSE(limits_threads(two_workers(), inherited));
}

TEST(WorkerEnvironment, ReplacesWhatALauncherAboveSet) {
  const Environment inherited{{"RANK", "7"},
                              {"TORCHELASTIC_ERROR_FILE", "/above"},
                              {"TORCHELASTIC_TIMER_FILE", "/above"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  auto environment = worker_environment(two_workers(), third_of_four(), inherited);

  EXPECT_EQ(environment["RANK"], "2");
  EXPECT_EQ(environment["TORCHELASTIC_ERROR_FILE"], "/logs/error.json");
  EXPECT_EQ(environment["TORCHELASTIC_USE_AGENT_STORE"], "True");
  EXPECT_FALSE(environment.contains("TORCHELASTIC_TIMER_FILE"));
}

TEST(WorkerEnvironment, LeavesTheThreadsOfASingleWorkerAlone) {
  LaunchOptions options = two_workers();
  EXPECT_TRUE(limits_threads(options, {}));
  options.workers = 1;
  EXPECT_FALSE(limits_threads(options, {}));
  EXPECT_FALSE(worker_environment(options, third_of_four(), {}).contains("OMP_NUM_THREADS"));
}

TEST(Environments, AreReadWithoutWhatIsNoVariable) {
  const char* variables[] = {"B=2=3", "A=", "broken", nullptr};

  const Environment environment = read_environment(variables);

  EXPECT_EQ(environment, (Environment{{"A", ""}, {"B", "2=3"}}));
  EXPECT_EQ(value_or(environment, "A", "x"), "x");
  EXPECT_EQ(value_or(environment, "B", "x"), "2=3");
}

}  // namespace
}  // namespace shampoo::launcher::test
