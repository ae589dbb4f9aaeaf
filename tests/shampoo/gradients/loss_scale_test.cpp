// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tests/shampoo/gradients/gradient_run.h"
#include "tests/support/device/backends.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

class LossScale : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    require(GetParam());
    if (IsSkipped() || HasFatalFailure()) return;
    backend = backend_at(GetParam());
    ranks = single_rank_communicator(backend->memory_kind());
  }

  std::unique_ptr<GradientRun> run(const OptimizerOptions& options) {
    return std::make_unique<GradientRun>(*backend, *ranks, options);
  }

  std::shared_ptr<kernels::Backend> backend;
  std::unique_ptr<Communicator> ranks;
};

/// From 2^4: * 4 after two good steps in a row, / 8 after an overflow, within [2, 2^6].
DynamicLossScale quick_scale() {
  return {.initial = 16, .growth = 4, .backoff = 0.125, .interval = 2, .floor = 2, .ceiling = 64};
}

/// n 2^exponent, with 0 <= n < 2048, where that is a normal number.
std::uint16_t float16_of(int n, int exponent) {
  if (n == 0) return 0;
  int power = 0;
  while (n >= 2 << power) ++power;
  const int fraction = (n << (10 - power)) & 0x3ff;
  return static_cast<std::uint16_t>((power + exponent + 15) << 10 | fraction);
}

TEST_P(LossScale, OfAPowerOfTwoGivesTheSameBits) {
  const auto plain = outcome_of(*backend, *ranks, {});
  for (const double scale : {0x1p-12, 1.0, 8.0, 0x1p20}) {
    const auto scaled =
        outcome_of(*backend, *ranks, {.gradients = {.loss_scaling = FixedLossScale{scale}}});
    EXPECT_EQ(scaled.values, plain.values) << scale;
    EXPECT_EQ(scaled.norms, plain.norms) << scale;
    EXPECT_EQ(scaled.loss_scale, scale);
  }
  const auto adapted = outcome_of(*backend, *ranks,
                                  {.gradients = {.loss_scaling = DynamicLossScale{.interval = 2}}});
  EXPECT_EQ(adapted.values, plain.values);
  EXPECT_EQ(adapted.norms, plain.norms);
}

TEST_P(LossScale, GivesTheSameBitsForGradientsOf16Bits) {
  // In float16, n / 32 for |n| < 32; long sides are multiplied by matrix units on a device.
  Recipe recipe = quick_recipe();
  recipe.blocking.size = 256;
  std::vector<float> value(130 * 40);
  std::vector<std::vector<std::vector<float>>> results;
  for (const int exponent : {0, 7}) {
    std::vector<std::uint16_t> half(value.size());
    Placed<float> values(backend.get(), value);
    Placed<std::uint16_t> gradients(backend.get(), half);
    ParameterGroup group{.parameters = {{.name = "half",
                                         .shape = {130, 40},
                                         .value = values.data(),
                                         .gradient = {gradients.data(), Type::float16}}},
                         .recipe = recipe};
    Optimizer optimizer(*backend, *ranks, {group},
                        {.gradients = {.loss_scaling = FixedLossScale{std::exp2(exponent)}}});
    results.emplace_back();
    for (std::size_t step = 0; step < 4; ++step) {
      for (std::size_t i = 0; i < half.size(); ++i) {
        const std::size_t n = (i * 37 + step * 11) % 31;
        const auto sign = static_cast<std::uint16_t>(i % 3 == 0 ? 0x8000 : 0);
        half[i] = static_cast<std::uint16_t>(float16_of(static_cast<int>(n), exponent - 5) | sign);
      }
      gradients.send();
      EXPECT_TRUE(optimizer.step().applied());
      results.back().push_back(values.fetch());
    }
    std::ranges::fill(value, 0.0f);
    values.send();
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0][3], value);
}

TEST_P(LossScale, GrowsAfterGoodStepsAndBacksOffWithinItsLimits) {
  const auto job = run({.gradients = {.loss_scaling = quick_scale()}});
  std::vector<double> scales;
  for (const char kind : std::string("ggg"
                                     "o"
                                     "ogg"
                                     "gog"
                                     "ooo")) {
    const double scale = job->optimizer.loss_scale();
    const StepResult result = kind == 'g' ? job->step() : job->overflow();
    EXPECT_EQ(result.applied(), kind == 'g');
    EXPECT_EQ(result.loss_scale(), scale);
    scales.push_back(job->optimizer.loss_scale());
  }
  const std::vector<double> expected = {16, 64, 64, 8, 2, 2, 8, 8, 2, 2, 2, 2, 2};
  EXPECT_EQ(scales, expected);
  float at_address = 0;
  download(backend.get(), &at_address, job->optimizer.loss_scale_address(), sizeof(float));
  EXPECT_EQ(at_address, 2);
}

TEST_P(LossScale, CountsAnOverflowForNobodyElseUntilItIsAtTheFloor) {
  for (const NonFinite policy : {NonFinite::skip, NonFinite::error, NonFinite::ignore}) {
    const auto job = run({.non_finite = policy,
                          .skipped_in_a_row = 1,
                          .gradients = {.loss_scaling = quick_scale()}});
    job->step();
    const auto values = job->model.values();
    const auto state = state_of(job->optimizer, job->model);
    EXPECT_FALSE(job->overflow().applied());  // 16 to 2; a refresh is due
    EXPECT_EQ(job->model.values(), values);
    EXPECT_EQ(state_of(job->optimizer, job->model), state);
    EXPECT_EQ(job->optimizer.statistics().overflows, 1);
    EXPECT_EQ(job->optimizer.statistics().skipped_steps, 1);
    EXPECT_EQ(job->optimizer.steps("tensor0"), 1);
    EXPECT_NE(error_of<NumericalError>([&] { (void)job->overflow().applied(); }).find("tensor3"),
              std::string::npos);
    EXPECT_EQ(job->optimizer.statistics().overflows, 1);
    EXPECT_TRUE(job->step().applied());
  }
}

TEST_P(LossScale, FollowsTheStateInTheMiddleOfAnInterval) {
  const OptimizerOptions options{.gradients = {.loss_scaling = quick_scale()}};
  const auto whole = run(options);
  whole->step();
  const StateDict middle = whole->optimizer.state_dict();
  EXPECT_EQ(middle.progress.loss_scale, 16);
  EXPECT_EQ(middle.progress.good_steps, 1);

  const auto other = run(options);
  other->overflow();
  other->optimizer.load_state_dict(middle);
  EXPECT_EQ(other->optimizer.loss_scale(), 16);
  other->step();
  EXPECT_EQ(other->optimizer.loss_scale(), 64);

  StateDict older = middle;
  older.progress.loss_scale = 0;
  older.progress.good_steps = 0;
  other->optimizer.load_state_dict(older);
  EXPECT_EQ(other->optimizer.loss_scale(), 16);
  StateDict beyond = middle;
  beyond.progress.loss_scale = 4096;
  other->optimizer.load_state_dict(beyond);
  EXPECT_EQ(other->optimizer.loss_scale(), 64);
  beyond.progress.loss_scale = 3;
  EXPECT_NE(error_of<std::invalid_argument>([&] {
              other->optimizer.load_state_dict(beyond);
            }).find("progress.loss_scale: must be 0 or a power of two, got 3"),
            std::string::npos);
}

TEST_P(LossScale, MayBeTakenOutOnceBeforeAStep) {
  const OptimizerOptions options{
      .gradients = {.loss_scaling = FixedLossScale{256}, .clipping = ClipGlobalNorm{1}}};
  ToyModel<float> model(awkward_shapes(), 1, backend.get()),
      same(awkward_shapes(), 1, backend.get());
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe())}, options);
  Optimizer other(*backend, *ranks, {same.group(quick_recipe())}, options);
  const auto double_gradients = [](ToyModel<float>& m) {
    m.new_gradients();
    for (auto& tensor : m.tensors)
      for (float& g : tensor.gradient) g *= 256;
    m.send_gradients();
  };
  for (int step = 0; step < 5; ++step) {
    double_gradients(model);
    double_gradients(same);
    const float scaled = model.tensors[3].gradient[0];
    optimizer.unscale();
    float first = 0;
    download(backend.get(), &first, model.parameter(3).gradient.data, sizeof(float));
    EXPECT_EQ(first, scaled / 256);
    EXPECT_THROW(optimizer.unscale(), std::logic_error);
    EXPECT_EQ(optimizer.step().gradient_norm(), other.step().gradient_norm());
  }
  EXPECT_EQ(model.values(), same.values());
  optimizer.prepare_step();
  EXPECT_THROW(optimizer.unscale(), std::logic_error);
  EXPECT_THROW(optimizer.zero_gradients(), std::logic_error);
}

TEST_P(LossScale, IsInGradientsAgainThatComeAfterZeros) {
  const std::vector<float> scaled(7, 16);
  std::vector<float> value(7, 1), gradient = scaled;
  Placed<float> values(backend.get(), value), gradients(backend.get(), gradient);
  ParameterGroup group{
      .parameters = {
          {.name = "w", .shape = {7}, .value = values.data(), .gradient = gradients.data()}}};
  Optimizer optimizer(*backend, *ranks, {group},
                      {.gradients = {.loss_scaling = FixedLossScale{16}}});
  for (int step = 0; step < 2; ++step) {
    optimizer.unscale();
    optimizer.group(0).rates.learning_rate = -1;
    EXPECT_THROW(optimizer.step(), std::invalid_argument);
    optimizer.group(0).rates.learning_rate = 1e-3;
    EXPECT_NE(error_of<std::logic_error>([&] { optimizer.unscale(); }).find("zero_gradients()"),
              std::string::npos);
    optimizer.zero_gradients();
    backend->upload(gradients.data(), scaled.data(), scaled.size() * sizeof(float));
    if (step == 1) optimizer.unscale();
    EXPECT_EQ(optimizer.step().gradient_norm(), std::sqrt(7.0));
  }
}

TEST_P(LossScale, IsTakenOutOfFloat16OnlyWhereThatIsAllowed) {
  std::vector<float> value(7);
  std::vector<std::uint16_t> half(7, 0x4c00);  // 16
  Placed<float> values(backend.get(), value);
  Placed<std::uint16_t> gradients(backend.get(), half);
  ParameterGroup group{.parameters = {{.name = "half",
                                       .shape = {7},
                                       .value = values.data(),
                                       .gradient = {gradients.data(), Type::float16}}}};
  Optimizer optimizer(*backend, *ranks, {group},
                      {.gradients = {.loss_scaling = FixedLossScale{16}}});
  EXPECT_NE(error_of<std::invalid_argument>([&] { optimizer.unscale(); }).find("'half'"),
            std::string::npos);
  optimizer.unscale(true);
  EXPECT_EQ(gradients.fetch(), std::vector<std::uint16_t>(7, 0x3c00));
  optimizer.zero_gradients();
  EXPECT_EQ(gradients.fetch(), std::vector<std::uint16_t>(7, 0));
}

TEST_P(LossScale, IsTakenOutOnlyOfGradientsThatHaveTheirOwnMemory) {
  std::vector<float> value(12, 1), gradient(6, 16);
  Placed<float> values(backend.get(), value), gradients(backend.get(), gradient);
  const auto optimizer = [&](std::vector<std::int64_t> strides, float* other) {
    ParameterGroup group{
        .parameters = {{.name = "w",
                        .shape = {2, 3},
                        .value = values.data(),
                        .gradient = {gradients.data(), Type::float32, strides}},
                       {.name = "v", .shape = {6}, .value = values.data() + 6, .gradient = other}}};
    return Optimizer(*backend, *ranks, {group},
                     {.gradients = {.loss_scaling = FixedLossScale{16}}});
  };
  const auto refusal = [&](Optimizer refuses) {
    return error_of<std::invalid_argument>([&] { refuses.unscale(); });
  };
  for (const auto& strides : std::vector<std::vector<std::int64_t>>{{0, 1}, {1, 1}})
    EXPECT_NE(refusal(optimizer(strides, nullptr)).find("'w': gradient: elements of it share"),
              std::string::npos);
  EXPECT_NE(refusal(optimizer({}, gradients.data())).find("memory of the gradient of"),
            std::string::npos);
  EXPECT_EQ(gradients.fetch(), gradient);
  Optimizer transposed = optimizer({1, 2}, nullptr);
  transposed.unscale();
  EXPECT_EQ(gradients.fetch(), std::vector<float>(6, 1));
}

INSTANTIATE_TEST_SUITE_P(Places, LossScale, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
