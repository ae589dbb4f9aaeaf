// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tests/shampoo/gradients/gradient_run.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(GradientOptions, OutOfRangeAreNamed) {
  struct Bad {
    GradientOptions options;
    const char* message;
  };
  const std::vector<Bad> cases = {
      {{.loss_scaling = FixedLossScale{3}},
       "loss_scaling.scale must be a power of two in [2^-32, 2^32], got 3"},
      {{.loss_scaling = FixedLossScale{0}}, "loss_scaling.scale"},
      {{.loss_scaling = FixedLossScale{0x1p33}}, "loss_scaling.scale"},
      {{.loss_scaling = FixedLossScale{infinity}}, "loss_scaling.scale"},
      {{.loss_scaling = DynamicLossScale{.floor = 0}}, "loss_scaling.floor"},
      {{.loss_scaling = DynamicLossScale{.floor = 4, .ceiling = 2}},
       "loss_scaling.ceiling must be a power of two in [floor, 2^32], got 2"},
      {{.loss_scaling = DynamicLossScale{.initial = 0x1p25}},
       "loss_scaling.initial must be a power of two in [floor, ceiling]"},
      {{.loss_scaling = DynamicLossScale{.growth = 1.5}}, "loss_scaling.growth"},
      {{.loss_scaling = DynamicLossScale{.growth = 0.5}}, "loss_scaling.growth"},
      {{.loss_scaling = DynamicLossScale{.backoff = 1}}, "loss_scaling.backoff"},
      {{.loss_scaling = DynamicLossScale{.backoff = std::nan("")}}, "loss_scaling.backoff"},
      {{.loss_scaling = DynamicLossScale{.interval = 0}}, "loss_scaling.interval must be >= 1"},
      {{.spike_guard = {.deviations = 0}}, "spike_guard.deviations must be in (0, inf), got 0"},
      {{.spike_guard = {.window = 1}}, "spike_guard.window must be 0 or in [2, 1024], got 1"},
      {{.spike_guard = {.window = 1025}}, "spike_guard.window"},
      {{.spike_guard = {.window = -1}}, "spike_guard.window"},
      {{.clipping = ClipGlobalNorm{0}}, "clipping.max_norm must be in (0, inf), got 0"},
      {{.clipping = ClipGlobalNorm{infinity}}, "clipping.max_norm"},
      {{.clipping = ClipParameterNorm{-1}}, "clipping.max_norm"},
      {{.clipping = ClipValue{std::nan("")}}, "clipping.limit"},
  };
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  for (const Bad& bad : cases) {
    ToyModel<float> model(std::vector<std::vector<std::int64_t>>{{3}});
    const auto error = error_of<std::invalid_argument>(
        [&] { Optimizer(*backend, *ranks, {model.group()}, {.gradients = bad.options}); });
    EXPECT_NE(error.find("options: gradients." + std::string(bad.message)), std::string::npos)
        << bad.message << " in: " << error;
  }
}

TEST(GradientOptions, ThatDifferBetweenRanksAreNamed) {
  run_ranks(3, [](Communicator& communicator) {
    const auto backend = cpu_kernels({.threads = 1});
    ToyModel<float> model(std::vector<std::vector<std::int64_t>>{{3}});
    const double limit = communicator.rank() == 1 ? 2 : 1;
    const auto error = error_of<CommunicationError>([&] {
      Optimizer(*backend, communicator, {model.group()},
                {.gradients = {.clipping = ClipGlobalNorm{limit}}});
    });
    EXPECT_NE(error.find("global_norm(max_norm=2)"), std::string::npos) << error;
    EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
  });
}

}  // namespace
}  // namespace shampoo::test
