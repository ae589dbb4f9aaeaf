// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "distributor/transports/gloo/gloo.h"
#include "processes.h"

namespace shampoo {

using Variables = std::map<std::string, std::string>;

inline std::vector<std::string> worker(const std::vector<std::string>& orders = {}) {
  std::vector<std::string> words = {JOIN_WORKER};
  words.insert(words.end(), orders.begin(), orders.end());
  return words;
}

inline Variables torchrun(int rank, int size, int port, bool agent_serves) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_USE_AGENT_STORE", agent_serves ? "True" : "False"}};
}

inline Variables restarted(Variables variables, int restarts) {
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(restarts);
  return variables;
}

inline Variables slurm(int rank, int size, int port) {
  return {{"SLURM_JOB_ID", "77"},
          {"SLURM_STEP_ID", "3"},
          {"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_STEP_NUM_TASKS", std::to_string(size)},
          {"SLURM_LOCALID", std::to_string(rank)},
          {"SLURM_STEP_NUM_NODES", "1"},
          {"SLURM_STEP_NODELIST", "localhost"},
          {"MASTER_PORT", std::to_string(port)}};
}

inline void expect_line(Process& process, int rank, int size, const std::string& launcher) {
  EXPECT_EQ(process.wait(), 0) << process.output();
  const std::string line = "rank=" + std::to_string(rank) + " size=" + std::to_string(size) +
                           " local_rank=" + std::to_string(rank) + " launcher=" + launcher;
  EXPECT_NE(process.output().find(line), std::string::npos) << line << "\n" << process.output();
  const std::string sum = "sum=" + std::to_string(size * (size - 1) / 2);
  EXPECT_NE(process.output().find(sum), std::string::npos) << process.output();
}

inline void expect_error(Process& process, const std::string& text) {
  EXPECT_EQ(process.wait(), 3) << process.output();
  EXPECT_NE(process.output().find(text), std::string::npos) << text << "\n" << process.output();
}

class JoinProcesses : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  }
};

}  // namespace shampoo
