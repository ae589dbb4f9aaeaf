// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are saved from the memory of one backend and loaded into that of another.
#include <gtest/gtest.h>

#include "shampoo/checkpoint/reader.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/shampoo/checkpoint/placed_job.h"

namespace shampoo::test {
namespace {

class CheckpointsBetweenPlaces : public testing::TestWithParam<std::tuple<Place, Place>> {
 protected:
  void SetUp() override {
    require(from());
    if (!IsSkipped() && !HasFatalFailure()) require(to());
  }

  static Place from() { return std::get<0>(GetParam()); }
  static Place to() { return std::get<1>(GetParam()); }

  static LoadedCheckpoint load_into(PlacedJob& job, const std::filesystem::path& folder) {
    UserState user = job.user();
    return load(*job.optimizer, folder, user);
  }

  /// Tensors with their checksums.
  static std::vector<std::pair<checkpoint::TensorShard, std::uint64_t>> tensors_of(
      const std::filesystem::path& folder) {
    std::vector<std::pair<checkpoint::TensorShard, std::uint64_t>> tensors;
    const checkpoint::Reader reader(folder);
    for (std::size_t file = 0; file < reader.manifest().files.size(); ++file) {
      const auto shard = reader.shard(file);
      reader.for_each_tensor(file, [&](const auto& tensor) {
        tensors.emplace_back(tensor, shard->checksum(shard->index_of(tensor)));
      });
    }
    return tensors;
  }

  static void expect_equal(PlacedJob& job, PlacedJob& other) {
    const StateDict state = job.optimizer->state_dict(), of_other = other.optimizer->state_dict();
    EXPECT_EQ(state.tensors, of_other.tensors);
    EXPECT_EQ(state.parameters, of_other.parameters);
    EXPECT_EQ(state.progress, of_other.progress);
    EXPECT_EQ(job.values(), other.values());
  }

  TemporaryFolder root_;
};

TEST_P(CheckpointsBetweenPlaces, AreOfOptimizersInBoth) {
  PlacedJob first(from()), second(to());
  first.train(0, 2);
  second.train(0, 5);
  AsyncCheckpointer checkpointer({{"first", *first.optimizer}, {"second", *second.optimizer}});
  checkpointer.start(root_.path(), first.user());
  const StateDict saved = second.optimizer->state_dict();
  second.train(5, 6);
  ASSERT_EQ(checkpointer.wait(), root_.path() / "step-2");

  PlacedJob first_again(from()), second_again(to());
  UserState user = first_again.user();
  const LoadedCheckpoint loaded =
      load({{"second", *second_again.optimizer}, {"first", *first_again.optimizer}}, root_.path(),
           {.state = {.strict = false}});
  EXPECT_EQ(loaded.state.other_arithmetic, "") << "of each";
  load({{"first", *first_again.optimizer}, {"second", *second_again.optimizer}}, root_.path(),
       user);
  expect_equal(first, first_again);
  EXPECT_EQ(second_again.optimizer->state_dict(), saved);
}

TEST_P(CheckpointsBetweenPlaces, HoldTheSameBytesAndLetEachGoOnByItself) {
  PlacedJob first(from());
  first.train(0, steps_before);
  const auto folder = save(*first.optimizer, root_.path() / "from", first.user());

  PlacedJob second(to());
  const LoadedCheckpoint loaded = load_into(second, folder);
  EXPECT_EQ(loaded.state.other_arithmetic.empty(), from() == to());
  EXPECT_TRUE(loaded.state.recomputed.empty());
  expect_equal(first, second);
  const auto again = save(*second.optimizer, root_.path() / "to", second.user());
  EXPECT_EQ(tensors_of(again), tensors_of(folder));

  // The values are those of the step that was saved: both checkpoints start the same run.
  PlacedJob third(to());
  load_into(third, again);
  second.train(steps_before, steps_before + steps_after);
  third.train(steps_before, steps_before + steps_after);
  expect_equal(second, third);
  if (from() != to()) return;
  first.train(steps_before, steps_before + steps_after);
  expect_equal(first, second);
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointsBetweenPlaces,
                         testing::Combine(testing::ValuesIn(all_places),
                                          testing::ValuesIn(all_places)),
                         [](const auto& tested) {
                           return name_of(std::get<0>(tested.param)) + "_to_" +
                                  name_of(std::get<1>(tested.param));
                         });

}  // namespace
}  // namespace shampoo::test
