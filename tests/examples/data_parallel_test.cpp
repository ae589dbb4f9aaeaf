// SPDX-License-Identifier: Apache-2.0
// The trainer on ranks that are threads of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "distributor/communicator.h"
#include "examples/fashion/agreement.h"
#include "examples/fashion/group_rates.h"
#include "examples/fashion/network/layout.h"
#include "examples/fashion/replica.h"
#include "examples/fashion/schedules.h"
#include "examples/fashion/training.h"
#include "tests/examples/fashion_ranks.h"
#include "tests/support/temporary_folder.h"

namespace fashion {
namespace {

/// The gradient of the second batch, and the loss of all its images.
struct Found {
  std::vector<float> gradient;
  double loss = 0;
};

Found second_batch(shampoo::Communicator& ranks, const Dataset& dataset,
                   const Normalisation& normalisation) {
  Replica replica(ranks, dataset, normalisation, 1, 5);
  replica.find_gradient();
  Found found;
  found.loss = replica.find_gradient();
  ranks.all_reduce(&found.loss, 1, shampoo::Type::float64);
  const auto tensors = replica.network().tensors();
  found.gradient.assign(tensors.front().gradient, tensors.front().gradient + parameter_count);
  return found;
}

TEST_F(FashionRanks, FindTheGradientThatOneRankFinds) {
  const auto body = [&](shampoo::Communicator& ranks) {
    return second_batch(ranks, dataset, normalisation);
  };
  const Found alone = on_ranks(1, body);
  const float largest = std::abs(*std::ranges::max_element(
      alone.gradient, [](float a, float b) { return std::abs(a) < std::abs(b); }));

  // A gradient is a sum over the images and at most 784 pixels of each, added up in another order.
  // Rounding errors of random signs grow with the root of the number of terms, times the unit
  // roundoff, times the mean magnitude of what is summed: taken as 8 times the largest gradient.
  const double roundoff = std::numeric_limits<float>::epsilon() / 2;
  const double tolerance = std::sqrt(batch_size * image_size) * roundoff * 8 * largest;
  for (const int count : {2, 3}) {
    const Found together = on_ranks(count, body);

    // Each image's loss has the error of a few sums of up to 1568 terms.
    EXPECT_NEAR(together.loss, alone.loss, 1568 * roundoff * alone.loss) << count << " ranks";
    double worst = 0;
    for (int k = 0; k < parameter_count; ++k)
      worst =
          std::max(worst, std::abs(static_cast<double>(together.gradient[k]) - alone.gradient[k]));
    EXPECT_LE(worst, tolerance) << count << " ranks; the largest gradient is " << largest;
  }
}

TEST_F(FashionRanks, TrainAsOneRankDoes) {
  const Outcome alone = trained(1);
  ASSERT_EQ(alone.losses.size(), 6u);
  ASSERT_EQ(alone.epochs.size(), 3u);

  for (const int count : {2, 3}) {
    const Outcome together = trained(count);

    ASSERT_EQ(together.losses.size(), alone.losses.size());
    // Elements of the gradient that are little more than rounding errors step by the whole rate,
    // and the roots of small eigenvalues magnify the others: together 3e-5 of the loss here. The
    // bound leaves room for other kernels; the test above is the sharp one.
    for (std::size_t step = 0; step < alone.losses.size(); ++step)
      EXPECT_NEAR(together.losses[step], alone.losses[step], 1e-3 * alone.losses[0])
          << "step " << step << ", " << count << " ranks";
    // One image of the test may be between two classes.
    EXPECT_NEAR(together.epochs.back().accuracy, alone.epochs.back().accuracy, 100.0 / 45 + 1e-9);
  }
  EXPECT_LT(alone.losses.back(), alone.losses.front());
}

TEST_F(FashionRanks, GiveTheSameBitsAgainWithMoreThreads) {
  for (const int count : {2, 3}) {
    const Outcome first = trained(count);

    EXPECT_EQ(trained(count, count).checksum, first.checksum) << count << " ranks";
  }
  EXPECT_NE(trained(2, 1, 6).checksum, trained(2, 1, 7).checksum) << "of two seeds";
}

TEST_F(FashionRanks, TrainByEveryMethod) {
  for (const Method& each : methods()) {
    const Outcome outcome = trained(3, {&each, {.block = 512, .refresh = 2}, each.rate, 5}, 3);
    ASSERT_EQ(outcome.epochs.size(), 3u) << each.name;
    EXPECT_LT(outcome.epochs.back().loss, outcome.epochs.front().loss) << each.name;
  }
}

TEST_F(FashionRanks, TrainByTheRoutesOfAFileAndGoOnWithTheSameBits) {
  const Method routed = routed_method(FASHION_ROUTES);
  const auto run = [&](int steps, const std::filesystem::path& folder) {
    Task task{dataset, normalisation, 3, steps, 1};
    task.checkpoints = CheckpointPlan{folder, 3, 2, true};
    return on_ranks(2, [&](shampoo::Communicator& communicator) {
      Progress progress(nullptr);
      return train(communicator, task, {&routed, {.block = 1, .refresh = 1}, routed.rate, 5},
                   progress);
    });
  };
  const shampoo::test::TemporaryFolder first, second;
  const Outcome undisturbed = run(6, first.path());
  EXPECT_LT(undisturbed.epochs.back().loss, undisturbed.epochs.front().loss);
  run(4, second.path());
  EXPECT_EQ(run(6, second.path()).checksum, undisturbed.checksum);
}

TEST_F(FashionRanks, TrainByAScheduleAndAsWithoutAnAverageOfTheirValues) {
  const auto run = [&](const std::string& schedule, std::optional<double> ema) {
    Task task{dataset, normalisation, 3, 6, 1};
    task.schedule = schedule;
    task.ema = ema;
    return on_ranks(2, [&](shampoo::Communicator& communicator) {
      Progress progress(nullptr);
      return train(communicator, task, {&method("shampoo"), {.block = 512, .refresh = 2}, 1e-3, 5},
                   progress);
    });
  };
  const Outcome plain = run("one_cycle", {}), averaged = run("one_cycle", 0.5);
  EXPECT_EQ(plain.schedule.value().values(1, 6),
            shampoo::Schedule(shampoo::schedules::OneCycle{.steps = 6}).values(1, 6));
  EXPECT_NE(plain.checksum, run("constant", {}).checksum);
  EXPECT_EQ(averaged.checksum, plain.checksum);
  EXPECT_EQ(averaged.losses, plain.losses);
}

TEST(FashionSchedules, RiseToThePeakAndFallButTheConstantOne) {
  for (const std::string& name : schedule_names()) {
    const std::vector<double> rates = schedule_named(name, 1170, 234).values(1, 1170);
    EXPECT_LT(rates.front(), 0.2) << name;
    EXPECT_NEAR(std::ranges::max(rates), 1, 1e-9) << name;
    EXPECT_EQ(rates.back() < 0.2, name != "constant") << name;
  }
  EXPECT_THROW(schedule_named("none", 1170, 234), std::invalid_argument);
}

TEST(RoutesOfAFile, AreRefusedWithTheFileAndThePlace) {
  const shampoo::test::TemporaryFolder folder;
  const auto refused = [&](const std::filesystem::path& file) -> std::string {
    try {
      routed_method(file);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const auto file = shampoo::test::write_file(folder.path() / "bad.json",
                                              R"({"otherwise": {"rates": {"lr": 1}}})");
  EXPECT_TRUE(refused(file).starts_with(file.string() + ": routes:\notherwise.rates.lr: "))
      << refused(file);
  EXPECT_EQ(refused(folder.path() / "gone.json"),
            (folder.path() / "gone.json").string() + ": cannot be read");
}

TEST_F(FashionRanks, GoOnFromACheckpointWithTheSameBits) {
  const shampoo::test::TemporaryFolder folder;
  const auto run = [&](int ranks, int steps, bool resumes) {
    Task task{dataset, normalisation, 3, steps, 1};
    task.checkpoints = CheckpointPlan{folder.path() / std::to_string(ranks), 3, 2, resumes};
    return on_ranks(ranks, [&](shampoo::Communicator& communicator) {
      Progress progress(nullptr);
      return train(communicator, task, {&method("shampoo"), {.block = 512, .refresh = 2}, 1e-3, 5},
                   progress);
    });
  };
  const Outcome undisturbed = trained(2);
  run(2, 4, false);  // in the second epoch of two steps
  EXPECT_THROW(run(2, 6, false), std::invalid_argument);
  for (int again = 0; again < 2; ++again) {
    const Outcome resumed = run(2, 6, true);
    EXPECT_EQ(resumed.checksum, undisturbed.checksum);
    EXPECT_EQ(resumed.losses, undisturbed.losses);
    ASSERT_EQ(resumed.epochs.size(), undisturbed.epochs.size());
    for (std::size_t e = 0; e < resumed.epochs.size(); ++e) {
      EXPECT_EQ(resumed.epochs[e].loss, undisturbed.epochs[e].loss);
      EXPECT_EQ(resumed.epochs[e].accuracy, undisturbed.epochs[e].accuracy);
    }
  }
  const auto listing = shampoo::list_checkpoints(folder.path() / "2" / "Shampoo");
  ASSERT_EQ(listing.complete.size(), 2u);
  EXPECT_EQ(listing.complete[0].step, 4);
  EXPECT_EQ(listing.complete[1].step, 6);
}

TEST_F(FashionRanks, RefuseToGoOnWithAnotherScheduleOrOtherEpochs) {
  const shampoo::test::TemporaryFolder folder;
  const auto complaint = [&](const std::string& schedule, int epochs, int steps) -> std::string {
    Task task{dataset, normalisation, epochs, steps, 1};
    task.checkpoints = CheckpointPlan{folder.path(), 3, 2, true};
    task.schedule = schedule;
    Progress progress(nullptr);
    try {
      const auto alone = shampoo::single_rank_communicator();
      train(*alone, task, {&method("adamw"), {.block = 512, .refresh = 2}, 1e-3, 5}, progress);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  ASSERT_EQ(complaint("one_cycle", 3, 2), "");
  const std::string of_another =
      "--checkpoint: " + (folder.path() / "AdamW").string() + " has checkpoints of a run with ";
  EXPECT_EQ(complaint("constant", 3, 3), of_another + "--schedule one_cycle, not constant");
  EXPECT_EQ(complaint("", 3, 3), of_another + "--schedule one_cycle, not its own");
  EXPECT_EQ(complaint("one_cycle", 2, 3), of_another + "--epochs 3, not 2");
  EXPECT_EQ(complaint("one_cycle", 3, 3), "");
}

TEST_F(FashionRanks, SayThatTheLastCheckpointIsMissing) {
  const shampoo::test::TemporaryFolder folder;
  const auto unsaved = [&](const std::filesystem::path& to) {
    Task task{dataset, normalisation, 3, 4, 1};
    task.checkpoints = CheckpointPlan{to, 2};
    return on_ranks(2,
                    [&](shampoo::Communicator& ranks) {
                      Progress progress(nullptr);
                      return train(ranks, task, {&method("adamw"), {}, 1e-3, 5}, progress);
                    })
        .unsaved;
  };
  // step-N fits behind it, and the name that a folder has until it is complete does not.
  auto deep = folder.path();
  while (deep.native().size() < 4060)
    deep /= std::string(100, 'd').substr(0, 4063 - deep.native().size());
  std::filesystem::create_directories(deep);
  EXPECT_TRUE(unsaved(deep).starts_with("a checkpoint failed: ")) << unsaved(deep);
  EXPECT_EQ(unsaved(folder.path() / "saved"), "");
}

TEST_F(FashionRanks, EndWithTheSameDigitsWhetherGroupsOfDifferentRatesAreMergedOrNot) {
  constexpr int tensors = 8;
  Progress progress(nullptr);
  const Attempt attempt{&method("shampoo"), {.block = 512, .refresh = 2}, 1e-3, 5};
  const auto runs = compare_group_rates({dataset, normalisation, 3, 5, 1}, attempt, progress);

  ASSERT_EQ(runs.size(), 6u);
  for (std::size_t first = 0; first < runs.size(); first += 3) {
    const GroupRatesRun &merged = runs[first], &unmerged = runs[first + 1],
                        &apart = runs[first + 2];
    EXPECT_EQ(merged.ranks, first == 0 ? 1 : 2);
    for (const GroupRatesRun* const other : {&unmerged, &apart}) {
      EXPECT_EQ(other->window_loss, merged.window_loss);
      EXPECT_EQ(other->lifetime_loss, merged.lifetime_loss);
      EXPECT_EQ(other->checksum, merged.checksum);
      EXPECT_GT(2 * other->launches, 3 * merged.launches);
    }
    EXPECT_EQ(merged.optimizers, 1);
    EXPECT_EQ(apart.optimizers, tensors);
    // One a step, and what a first step adds.
    EXPECT_EQ(unmerged.collectives, merged.collectives);
    EXPECT_EQ(apart.collectives, tensors * merged.collectives);
    EXPECT_EQ(unmerged.bytes, merged.bytes);
    EXPECT_EQ(merged.bytes > 0, merged.ranks > 1);
  }
  EXPECT_EQ(std::ranges::count(group_rates_table(runs), '\n'), 7);
}

TEST_F(FashionRanks, ShareTheTestImages) {
  const auto accuracy = [&](shampoo::Communicator& ranks) {
    return Replica(ranks, dataset, normalisation, 1, 5).test_accuracy();
  };
  const double alone = on_ranks(1, accuracy);

  EXPECT_GE(alone, 0);
  EXPECT_LE(alone, 100);
  // 50: some have no image at all.
  for (const int count : {2, 7, 50}) EXPECT_EQ(on_ranks(count, accuracy), alone) << count;
}

TEST_F(FashionRanks, AreRefusedWhereABatchHasNoImageForEach) {
  const auto build = [&](shampoo::Communicator& ranks) {
    Replica(ranks, dataset, normalisation, 1, 5);
  };
  try {
    shampoo::run_ranks(257, build);
    FAIL() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("256"), std::string::npos) << error.what();
  }
}

TEST_F(FashionRanks, NoticeDifferentParameters) {
  const auto end = [](shampoo::Communicator& ranks) {
    Workers workers(1);
    Network<float> network(workers, ranks.rank() == 2 ? 8 : 7, 1);
    agreed_checksum(ranks, network);
  };
  try {
    shampoo::run_ranks(3, end);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fashion
