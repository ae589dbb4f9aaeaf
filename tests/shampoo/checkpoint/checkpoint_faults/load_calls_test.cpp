// SPDX-License-Identifier: Apache-2.0
// Which files a load opens, and how often.
#include <gtest/gtest.h>

#include <map>

#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using checkpoint::test::calls_of;

class CallsOfALoad : public testing::Test {
 protected:
  void SetUp() override { folder_ = save_first<float>(root_.path(), large, {.ranks = 3}); }

  /// How often each file of the checkpoint was opened, by all ranks together.
  std::map<std::string, int> opened(int count, bool with_user, const std::string& prefix = "") {
    std::map<std::string, int> opens;
    for (const std::string& call : calls_of([&] {
           run_ranks(count, [&](Communicator& communicator) {
             Job<float> job(communicator, large, {});
             UserState user = user_state_of(job);
             const CheckpointOptions options{.state = {.strict = false, .prefix = prefix}};
             if (with_user)
               load(*job.optimizer, folder_, user, options);
             else
               load(*job.optimizer, folder_, options);
           });
         }))
      if (call.starts_with("open " + folder_.string()))
        ++opens[std::filesystem::path(call.substr(5)).filename()];
    return opens;
  }

  static std::string shard(int rank) {
    return "shard-0000" + std::to_string(rank) + "-of-00003.safetensors";
  }

  static inline const Trainee large{.shapes = {{19, 18}, {33}, {20, 31}, {8, 40}}};
  TemporaryFolder root_;
  std::filesystem::path folder_;
};

TEST_F(CallsOfALoad, OpenEachFileOnce) {
  const std::map<std::string, int> once{
      {"manifest.json", 1}, {shard(0), 1}, {shard(1), 1}, {shard(2), 1}};
  EXPECT_EQ(opened(1, false), once);
  EXPECT_EQ(opened(1, true), once) << "tensors of the user are in the same files";
  EXPECT_EQ(opened(3, false), once) << "each rank its own, rank 0 the manifest";
}

TEST_F(CallsOfALoad, OpenNoFileThatHasNothingForTheRank) {
  EXPECT_EQ(opened(3, false, "nothing"), (std::map<std::string, int>{{"manifest.json", 1}}));
}

TEST_F(CallsOfALoad, OpenEachFileAtMostOnceForEachRank) {
  for (const auto& [file, opens] : opened(2, true))
    EXPECT_LE(opens, file == "manifest.json" ? 1 : 2) << file;
}

}  // namespace
}  // namespace shampoo::test
