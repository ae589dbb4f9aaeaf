// SPDX-License-Identifier: Apache-2.0
// The trainer with micro-batches, clipping, and values and gradients of 16 bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "examples/fashion/network/narrow_tensors.h"
#include "examples/fashion/replica.h"
#include "kernels/rules/stored.h"
#include "tests/examples/fashion_ranks.h"
#include "tests/support/temporary_folder.h"

namespace fashion {
namespace {

class FashionNumerics : public FashionRanks {
 protected:
  Outcome trained_with(int ranks, const Numerics& numerics, std::optional<double> clip = {},
                       std::optional<CheckpointPlan> checkpoints = {}, int steps = 6) const {
    Task task{dataset, normalisation, 3, steps, 1};
    task.numerics = numerics;
    task.clip = clip;
    task.checkpoints = checkpoints;
    return on_ranks(ranks, [&](shampoo::Communicator& communicator) {
      Progress progress(nullptr);
      return train(communicator, task, {&method("shampoo"), {.block = 512, .refresh = 2}, 1e-3, 5},
                   progress);
    });
  }
};

TEST_F(FashionNumerics, SumMicroBatchesToTheGradientOfTheBatch) {
  const auto second_batch = [&](int count, int micro_batches) {
    return on_ranks(count, [&](shampoo::Communicator& ranks) {
      Replica replica(ranks, dataset, normalisation, 1, 5, {.micro_batches = micro_batches});
      replica.find_gradient();
      replica.find_gradient();
      std::vector<float> gradient;
      for (const shampoo::Parameter& parameter : replica.parameters()) {
        const auto* const first = static_cast<const float*>(parameter.gradient.data);
        gradient.insert(gradient.end(), first, first + shampoo::grouping::numel(parameter.shape));
      }
      return gradient;
    });
  };
  const std::vector<float> whole = second_batch(1, 1);
  float largest = 0;
  for (const float g : whole) largest = std::max(largest, std::abs(g));
  // As for several ranks, whose sums are in another order, too.
  const double roundoff = std::numeric_limits<float>::epsilon() / 2;
  const double tolerance = std::sqrt(batch_size * image_size) * roundoff * 8 * largest;
  for (const int ranks : {1, 3}) {
    const std::vector<float> summed = second_batch(ranks, 5);
    ASSERT_EQ(summed.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i)
      ASSERT_NEAR(summed[i], whole[i], tolerance) << i << ", " << ranks << " ranks";
  }
}

TEST_F(FashionNumerics, RefuseMoreMicroBatchesThanImages) {
  shampoo::run_ranks(3, [&](shampoo::Communicator& ranks) {
    try {
      Replica(ranks, dataset, normalisation, 1, 5, {.micro_batches = 86});
      FAIL() << "nothing was thrown";
    } catch (const std::invalid_argument& error) {
      EXPECT_STREQ(error.what(),
                   "--accumulate: must be at most 85, the images of a batch that a rank has, got "
                   "86");
    }
  });
}

TEST_F(FashionNumerics, RoundAsTheLibraryDoes) {
  Workers workers(1);
  Network<float> network(workers, 7, 1);
  float* const values = network.tensors().front().value;
  Random random(3);
  const std::vector<float> given = [&] {
    std::vector<float> all = {0.f,      -0.f,     1.f,        65504.f,  65519.9f,
                              65520.f,  1e30f,    -1e30f,     0x1p-14f, 0x1p-15f,
                              0x1p-24f, 0x1p-25f, 0x1.8p-25f, -0x1p-30f};
    while (all.size() < 400)
      all.push_back(static_cast<float>(
          std::ldexp(random.uniform() - 0.5, static_cast<int>(all.size() % 48) - 28)));
    return all;
  }();
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    std::ranges::copy(given, values);
    NarrowTensors narrow(network, precision);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const float expected =
          precision == Precision::bf16
              ? shampoo::kernels::real<float>(
                    shampoo::kernels::stored<shampoo::kernels::Bfloat16>(given[i]))
              : shampoo::kernels::real<float>(
                    shampoo::kernels::stored<shampoo::kernels::Float16>(given[i]));
      EXPECT_EQ(values[i], expected) << given[i];
      EXPECT_EQ(std::signbit(values[i]), std::signbit(expected)) << given[i];
    }
  }
}

TEST_F(FashionNumerics, TrainIn16BitsAsIn32) {
  const Outcome wide = trained_with(1, {});
  for (const Precision precision : {Precision::bf16, Precision::fp16})
    for (const int ranks : {1, 3}) {
      const Outcome narrow = trained_with(ranks, {precision, 2});
      EXPECT_NE(narrow.checksum, wide.checksum);
      // Weights lose at most 2^-9 of their magnitude; losses, of about 2, were seen to differ by
      // less than 0.004.
      for (std::size_t s = 0; s < wide.losses.size(); ++s)
        EXPECT_NEAR(narrow.losses[s], wide.losses[s], 0.02) << s << ", " << ranks << " ranks";
      EXPECT_LT(narrow.losses.back(), narrow.losses.front());
    }
}

TEST_F(FashionNumerics, ClipTheNormOfAllGradients) {
  const Outcome plain = trained_with(1, {});
  EXPECT_EQ(trained_with(1, {}, 1e6).checksum, plain.checksum);
  EXPECT_NE(trained_with(1, {}, 1e-3).checksum, plain.checksum);
}

TEST_F(FashionNumerics, GoOnFromACheckpointWithTheSameBits) {
  const shampoo::test::TemporaryFolder folder;
  const auto plan = [&](bool resumes) { return CheckpointPlan{folder.path(), 3, 2, resumes}; };
  const Numerics numerics{Precision::fp16, 2};
  const Outcome undisturbed = trained_with(2, numerics, 1.0);
  trained_with(2, numerics, 1.0, plan(false), 4);
  try {
    trained_with(2, {Precision::fp16, 4}, 1.0, plan(true));
    FAIL() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with(" of a run with --accumulate 2, not 4"))
        << error.what();
  }
  const Outcome resumed = trained_with(2, numerics, 1.0, plan(true));
  EXPECT_EQ(resumed.checksum, undisturbed.checksum);
  EXPECT_EQ(resumed.losses, undisturbed.losses);
}

}  // namespace
}  // namespace fashion
