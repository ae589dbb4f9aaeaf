// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "distributor/communicator.h"
#include "tests/shampoo/protocol/device_job.h"
#include "tests/support/device/stream_communicator.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

constexpr int rank_count = 3;

/// Device job of one rank.
struct RankJob {
  explicit RankJob(Communicator& threads, const OptimizerOptions& options = {},
                   const Recipe& recipe = quick_recipe())
      : job(awkward_shapes()), communicator(threads, job.device) {
    job.begin(communicator, recipe, {}, options, 3);
  }
  Optimizer& optimizer() { return *job.optimizer; }

  DeviceJob job;
  StreamCommunicator communicator;
};

TEST(AsynchronousRanks, ComputeTheBitsOfOneRankInOneCollective) {
  DeviceJob alone(quick_recipe());
  for (int step = 0; step < 8; ++step) {
    alone.model.new_gradients();
    alone.optimizer->step();
  }
  const auto expected = alone.values();
  for (const bool votes : {false, true})
    run_ranks(rank_count, [&](Communicator& threads) {
      RankJob rank(threads, {.agree_before_commit = votes});
      const std::int64_t before = rank.communicator.collectives();
      for (int step = 0; step < 8; ++step) {
        rank.job.model.new_gradients();
        rank.optimizer().step();
      }
      EXPECT_EQ(rank.communicator.collectives() - before, votes ? 16 : 8);
      EXPECT_EQ(rank.job.values(), expected);
      EXPECT_EQ(rank.optimizer().steps("tensor0"), 8);
    });
}

TEST(AsynchronousRanks, ReplayCapturedStepsWithTheBitsOfPlainOnes) {
  for (const bool refreshes : {false, true}) {
    Recipe recipe = quick_recipe();
    recipe.refresh.staggered = refreshes;
    DeviceJob alone(recipe);
    for (int step = 0; step < 9; ++step) {
      alone.model.new_gradients();
      alone.optimizer->step();
    }
    const auto expected = alone.values();
    run_ranks(rank_count, [&](Communicator& threads) {
      RankJob rank(threads, {}, recipe);
      Optimizer& optimizer = rank.optimizer();
      EmulatedDevice::Graph graph;
      for (int step = 0; step < 9; ++step) {
        rank.job.model.new_gradients();
        optimizer.prepare_step();
        const bool serves =
            !(refreshes ? optimizer.refresh_is_large() : optimizer.refresh_is_due());
        if (graph.empty() && serves && optimizer.refresh_is_due() == refreshes) {
          rank.job.device.begin_capture();
          optimizer.enqueue_step();
          graph = rank.job.device.end_capture();
        }
        if (serves && !graph.empty())
          rank.job.device.replay(graph);
        else
          optimizer.enqueue_step();
      }
      EXPECT_FALSE(graph.empty());
      EXPECT_EQ(rank.job.values(), expected);
      EXPECT_EQ(optimizer.statistics().applied_steps, 9);
    });
  }
}

using Messages = std::array<std::string, rank_count>;

/// Two steps, then `spoil` acts on a rank, then a step returns on all and the next prepare_step()
/// throws the same Error on all ranks.
template <typename Error>
Messages messages_after(const std::function<void(RankJob&)>& spoil, bool stays_usable,
                        const OptimizerOptions& options = {}) {
  Messages messages;
  run_ranks(rank_count, [&](Communicator& threads) {
    RankJob rank(threads, options);
    rank.optimizer().step();
    rank.optimizer().step();
    const auto before = rank.job.values();
    spoil(rank);
    rank.optimizer().step();
    messages[static_cast<std::size_t>(threads.rank())] =
        error_of<Error>([&] { rank.optimizer().prepare_step(); });
    EXPECT_EQ(rank.job.values(), before);
    EXPECT_EQ(rank.optimizer().steps("tensor0"), 2);
    EXPECT_EQ(rank.optimizer().failure().empty(), stays_usable);

    rank.optimizer().group(1).rates = Rates();
    rank.job.set_present(4, true);
    for (auto& tensor : rank.job.model.tensors)
      for (float& g : tensor.gradient) g = 1;
    rank.job.model.send_gradients();
    if (stays_usable) {
      EXPECT_TRUE(rank.optimizer().step().applied());
    } else {
      EXPECT_THROW(rank.optimizer().step(), CommunicationError);
    }
  });
  for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
  return messages;
}

bool says(const Messages& messages, const std::string& part) {
  return messages[0].find(part) != std::string::npos;
}

TEST(AnAsynchronousRateThatDiffers, IsNamedAndAppliedNowhere) {
  for (const bool votes : {false, true}) {
    const Messages messages = messages_after<CommunicationError>(
        [](RankJob& rank) {
          if (rank.communicator.rank() == 1) rank.optimizer().group(1).rates.weight_decay = 0.25;
        },
        votes, {.agree_before_commit = votes});
    EXPECT_TRUE(says(messages, "step 3")) << messages[0];
    EXPECT_TRUE(says(messages, "rank 1 has 'group 1: weight_decay 0.25'")) << messages[0];
  }
}

TEST(AnAsynchronousGradientThatIsAbsentOnOneRank, IsNamedAndAppliedNowhere) {
  const Messages messages = messages_after<CommunicationError>(
      [](RankJob& rank) {
        if (rank.communicator.rank() == 2) rank.job.set_present(4, false);
      },
      false);
  EXPECT_TRUE(says(messages, "parameter 'tensor4'")) << messages[0];
}

TEST(AsynchronousGradientsThatDiffer, AreNamedAndAppliedNowhere) {
  const Messages norms = messages_after<CommunicationError>(
      [](RankJob& rank) {
        if (rank.communicator.rank() == 0) rank.job.model.tensors[0].gradient[0] += 1;
        rank.job.model.send_gradients();
      },
      false);
  EXPECT_TRUE(says(norms, "their squared norm is")) << norms[0];

  const Messages bad = messages_after<CommunicationError>(
      [](RankJob& rank) {
        if (rank.communicator.rank() == 0) rank.job.model.tensors[1].gradient[0] = std::nanf("");
        rank.job.model.send_gradients();
      },
      false);
  EXPECT_TRUE(says(bad, "that of 'tensor1' is not finite on rank 0")) << bad[0];
}

TEST(AnAsynchronousRateGoneBadOnOneRank, IsThrownByAll) {
  for (const bool votes : {false, true}) {
    const Messages messages = messages_after<std::invalid_argument>(
        [](RankJob& rank) {
          if (rank.communicator.rank() == 1) rank.optimizer().group(1).rates.beta2 = 2;
        },
        votes, {.agree_before_commit = votes});
    EXPECT_TRUE(says(messages, "rank 1: group 1: beta2")) << messages[0];
  }
}

TEST(AsynchronousRanks, RefuseAStepTogetherWhereTheyVote) {
  run_ranks(rank_count, [](Communicator& threads) {
    RankJob rank(threads, {.agree_before_commit = true});
    rank.optimizer().step();
    const auto before = rank.job.values();
    const float kept = rank.job.model.tensors[2].gradient[3];
    if (threads.rank() == 2) rank.job.model.tensors[2].gradient[3] = std::nanf("");
    rank.job.model.send_gradients();
    const StepResult result = rank.optimizer().step();
    const std::string error = error_of<CommunicationError>([&] { (void)result.applied(); });
    EXPECT_NE(error.find("that of 'tensor2' is not finite on rank 2"), std::string::npos) << error;
    EXPECT_EQ(rank.job.values(), before);
    rank.job.model.tensors[2].gradient[3] = kept;
    rank.job.model.send_gradients();
    EXPECT_TRUE(rank.optimizer().step().applied());
  });
}

TEST(AnAsynchronousRankThatLeaves, IsAnErrorOnTheOthers) {
  Messages messages;
  run_ranks(rank_count, [&](Communicator& threads) {
    RankJob rank(threads);
    rank.optimizer().step();
    EXPECT_TRUE(rank.optimizer().latest_result().applied());
    threads.barrier().wait();
    if (threads.rank() == 1) return;
    rank.optimizer().step();
    messages[static_cast<std::size_t>(threads.rank())] =
        error_of<CommunicationError>([&] { rank.optimizer().prepare_step(); });
    EXPECT_NE(rank.optimizer().failure(), "");
  });
  for (const std::size_t r : {0u, 2u})
    EXPECT_NE(messages[r].find("rank 1 has left"), std::string::npos) << messages[r];
}

}  // namespace
}  // namespace shampoo::test
