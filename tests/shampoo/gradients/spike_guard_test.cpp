// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/shampoo/gradients/gradient_run.h"
#include "tests/support/device/backends.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

/// One gradient, of which every step gives the length.
class Spikes : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    require(GetParam());
    if (IsSkipped() || HasFatalFailure()) return;
    backend_ = backend_at(GetParam());
    ranks_ = single_rank_communicator(backend_->memory_kind());
    model_ = std::make_unique<ToyModel<float>>(std::vector<std::vector<std::int64_t>>{{1}}, 1,
                                               backend_.get());
  }

  std::unique_ptr<Optimizer> optimizer(const SpikeGuard& guard, int skipped_in_a_row = 20) {
    return std::make_unique<Optimizer>(*backend_, *ranks_,
                                       std::vector{model_->group(quick_recipe())},
                                       OptimizerOptions{.skipped_in_a_row = skipped_in_a_row,
                                                        .gradients = {.spike_guard = guard}});
  }
  StepResult step(Optimizer& optimizer, float length) {
    model_->tensors[0].gradient[0] = length;
    model_->send_gradients();
    return optimizer.step();
  }
  /// For each length whether the step was a spike.
  std::vector<bool> spikes(Optimizer& optimizer, const std::vector<float>& lengths) {
    std::vector<bool> found;
    for (const float length : lengths) {
      const StepResult result = step(optimizer, length);
      EXPECT_EQ(result.spike(), !result.applied());
      EXPECT_EQ(result.gradient_norm(), length);
      found.push_back(result.spike());
    }
    return found;
  }

 private:
  std::shared_ptr<kernels::Backend> backend_;
  std::unique_ptr<Communicator> ranks_;
  std::unique_ptr<ToyModel<float>> model_;
};

TEST_P(Spikes, AreStepsFarAboveTheWindowsMean) {
  const auto guarded = optimizer({.deviations = 2, .window = 4});
  // The window (1, 2, 3, 2) has the mean 2 and sigma sqrt(2 / 3) = 0.816: the limit is 3.633.
  EXPECT_EQ(spikes(*guarded, {1, 2, 3, 2, 3.75f}), (std::vector{false, false, false, false, true}));
  // (2, 3, 2, 3.75) has 2.6875 and 0.851: 4.389. Then (3, 2, 3.75, 4.25): 3.25, 0.979: 5.208.
  EXPECT_EQ(spikes(*guarded, {4.25f, 5.25f}), (std::vector{false, true}));
  EXPECT_EQ(guarded->statistics().spikes, 2);
  EXPECT_EQ(guarded->statistics().skipped_steps, 2);
  EXPECT_EQ(guarded->steps("tensor0"), 5);
}

TEST_P(Spikes, AreNoneWhereAllNormsAreEqualOrTheWindowIsNotFull) {
  const auto guarded = optimizer({.deviations = 1, .window = 3});
  EXPECT_EQ(spikes(*guarded, {1, 1000, 1000, 1000, 1e6f}),
            (std::vector{false, false, false, false, false}));
}

TEST_P(Spikes, AreAnErrorAfterSoManyInARow) {
  const auto guarded = optimizer({.deviations = 1, .window = 2}, 2);
  EXPECT_EQ(spikes(*guarded, {1, 2, 100}), (std::vector{false, false, true}));
  EXPECT_NE(error_of<NumericalError>([&] {
              (void)step(*guarded, 1e5f).applied();
            }).find("gradients.spike_guard"),
            std::string::npos);
}

TEST_P(Spikes, AreFoundAfterALoadAsBefore) {
  const auto first = optimizer({.deviations = 2, .window = 4});
  spikes(*first, {9, 1, 2, 3, 2});
  const StateDict dict = first->state_dict();
  EXPECT_EQ(dict.progress.gradient_norms, (std::vector<double>{1, 2, 3, 2}));
  const auto second = optimizer({.deviations = 2, .window = 4});
  second->load_state_dict(dict);
  EXPECT_EQ(spikes(*second, {3.5f, 3.75f}), spikes(*first, {3.5f, 3.75f}));
  const auto shorter = optimizer({.deviations = 2, .window = 2});
  shorter->load_state_dict(dict);
  EXPECT_EQ(spikes(*shorter, {4.5f}), std::vector{true});  // (3, 2): 2.5, 0.707: 3.914
  StateDict older = dict;
  older.progress.gradient_norms.clear();
  second->load_state_dict(older);
  EXPECT_EQ(spikes(*second, {1, 2, 3, 100}), (std::vector{false, false, false, false}));
}

INSTANTIATE_TEST_SUITE_P(Places, Spikes, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
