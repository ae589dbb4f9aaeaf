// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tests/shampoo/toy_model.h"
#include "tests/support/device/backends.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

class Accumulation : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    require(GetParam());
    if (IsSkipped() || HasFatalFailure()) return;
    backend = backend_at(GetParam());
    ranks = single_rank_communicator(backend->memory_kind());
  }

  static std::vector<Parameter> parameters_of(ToyModel<float>& model) {
    std::vector<Parameter> all;
    for (std::size_t t = 0; t < model.tensors.size(); ++t) all.push_back(model.parameter(t));
    return all;
  }
  template <typename T>
  std::vector<T> fetch(const Tensor& tensor, std::size_t count) {
    std::vector<T> copy(count);
    download(backend.get(), copy.data(), tensor.data, count * sizeof(T));
    return copy;
  }

  std::shared_ptr<kernels::Backend> backend;
  std::unique_ptr<Communicator> ranks;
};

TEST_P(Accumulation, MayBeIntoTensorsOfTheCaller) {
  ToyModel<float> model(awkward_shapes(), 1, backend.get()),
      target(awkward_shapes(), 2, backend.get());
  target.new_gradients();
  AccumulationOptions options{.micro_batches = 2, .mean = false};
  for (const Parameter& parameter : parameters_of(target))
    options.sums.push_back({parameter.gradient.data, Type::float32});
  GradientAccumulator sums(*backend, parameters_of(model), options);
  model.new_gradients();
  sums.add();
  for (std::size_t t = 0; t < model.tensors.size(); ++t) {
    EXPECT_EQ(sums.parameters()[t].gradient.data, options.sums[t].data);
    const std::vector<float>& gradient = model.tensors[t].gradient;
    EXPECT_EQ(fetch<float>(options.sums[t], gradient.size()), gradient) << t;
  }

  const auto refusal = [&](const Tensor& tensor) {
    AccumulationOptions shared = options;
    shared.sums[0].data = tensor.data;
    return error_of<std::invalid_argument>(
        [&] { GradientAccumulator(*backend, parameters_of(model), shared); });
  };
  const std::string overlap = ": must have memory of its own; it overlaps ";
  EXPECT_EQ(refusal(model.parameter(0).value),
            "accumulation: sums: tensor0" + overlap + "the value of tensor0");
  EXPECT_EQ(refusal(model.parameter(0).gradient),
            "accumulation: sums: tensor0" + overlap + "the gradient of tensor0");
  EXPECT_NE(refusal(options.sums[1]).find(overlap + "that of tensor"), std::string::npos);
  EXPECT_EQ(error_of<std::invalid_argument>([&] { sums.set_gradient(0, options.sums[0].data); }),
            "accumulation: sums: tensor0" + overlap + "the gradient of tensor0");

  options.sums[0].type = Type::float64;
  EXPECT_NE(error_of<std::invalid_argument>([&] {
              GradientAccumulator(*backend, parameters_of(model), options);
            }).find("accumulation: sums: tensor0: must be a row-major tensor in float32"),
            std::string::npos);
  options.sums.pop_back();
  EXPECT_THROW(GradientAccumulator(*backend, parameters_of(model), options), std::invalid_argument);
}

TEST_P(Accumulation, OfMicroBatchesIsTheirSumOrMean) {
  for (const bool mean : {true, false}) {
    ToyModel<float> model(awkward_shapes(), 1, backend.get());
    GradientAccumulator sums(*backend, parameters_of(model), {.micro_batches = 3, .mean = mean});
    const float weight = mean ? static_cast<float>(1.0 / 3) : 1.0f;
    for (int round = 0; round < 2; ++round) {
      std::vector<std::vector<float>> expected;
      for (const auto& tensor : model.tensors) expected.emplace_back(tensor.gradient.size());
      for (int batch = 0; batch < 3; ++batch) {
        model.new_gradients();
        for (std::size_t t = 0; t < model.tensors.size(); ++t) {
          const bool absent = t == 5 || (t == 3 && batch != 1);
          sums.set_gradient(t, absent ? nullptr : model.parameter(t).gradient.data);
          for (std::size_t i = 0; i < expected[t].size() && !absent; ++i)
            expected[t][i] = expected[t][i] + weight * model.tensors[t].gradient[i];
        }
        sums.add();
      }
      EXPECT_THROW(sums.add(), std::logic_error);
      for (std::size_t t = 0; t < expected.size(); ++t)
        EXPECT_EQ(fetch<float>(sums.parameters()[t].gradient, expected[t].size()), expected[t])
            << t;
      sums.clear();
    }
  }
}

TEST_P(Accumulation, TrainsAsOneBatchOfTheSameGradient) {
  // Four equal micro-batches: their mean is exact.
  ToyModel<float> model(awkward_shapes(), 1, backend.get()),
      whole(awkward_shapes(), 1, backend.get());
  GradientAccumulator sums(*backend, parameters_of(model), {.micro_batches = 4});
  ParameterGroup group{.parameters = sums.parameters(), .recipe = quick_recipe()};
  const OptimizerOptions options{.gradients = {.loss_scaling = DynamicLossScale{.interval = 2},
                                               .clipping = ClipGlobalNorm{1}}};
  Optimizer optimizer(*backend, *ranks, {group}, options);
  Optimizer other(*backend, *ranks, {whole.group(quick_recipe())}, options);
  for (int step = 0; step < 6; ++step) {
    const auto scale = static_cast<float>(optimizer.loss_scale());
    for (ToyModel<float>* const m : {&model, &whole}) {
      m->new_gradients();
      for (auto& tensor : m->tensors)
        for (float& g : tensor.gradient) g *= scale;
      m->send_gradients();
    }
    const bool absent = step % 2 == 1;
    sums.set_gradient(4, absent ? nullptr : model.parameter(4).gradient.data);
    other.group(0).set_gradient(4, absent ? nullptr : whole.parameter(4).gradient.data);
    for (int batch = 0; batch < 4; ++batch) sums.add();
    sums.set_gradients(optimizer.group(0));
    EXPECT_EQ(optimizer.step().gradient_norm(), other.step().gradient_norm());
    sums.clear();
  }
  EXPECT_EQ(model.values(), whole.values());
  EXPECT_EQ(optimizer.steps("tensor4"), 3);
}

TEST_P(Accumulation, KeepsFloat64AndWidensBfloat16) {
  std::vector<double> wide{0.1, -2};
  std::vector<std::uint16_t> narrow{0x3f80, 0xc000};  // 1, -2
  Placed<double> wides(backend.get(), wide);
  Placed<std::uint16_t> narrows(backend.get(), narrow);
  GradientAccumulator sums(
      *backend,
      {{.name = "wide", .shape = {2}, .gradient = wides.data()},
       {.name = "narrow", .shape = {2}, .gradient = {narrows.data(), Type::bfloat16}}},
      {.micro_batches = 2, .mean = false});
  sums.add();
  sums.add();
  EXPECT_EQ(sums.parameters()[0].gradient.type, Type::float64);
  EXPECT_EQ(fetch<double>(sums.parameters()[0].gradient, 2), (std::vector<double>{0.2, -4}));
  EXPECT_EQ(fetch<float>(sums.parameters()[1].gradient, 2), (std::vector<float>{2, -4}));
}

TEST_P(Accumulation, RefusesBadOptions) {
  EXPECT_NE(error_of<std::invalid_argument>([&] {
              GradientAccumulator(*backend, {}, {.micro_batches = 0});
            }).find("micro_batches must be >= 1, got 0"),
            std::string::npos);
  EXPECT_NE(error_of<std::invalid_argument>([&] {
              GradientAccumulator(*backend, {{.name = "odd", .shape = {-1}}});
            }).find("'odd'"),
            std::string::npos);
  EXPECT_THROW(
      GradientAccumulator(
          *backend, {{.name = "odd", .shape = {1}, .gradient = {nullptr, static_cast<Type>(9)}}}),
      std::invalid_argument);
  std::vector<float> elements(3);
  void* const between = reinterpret_cast<char*>(elements.data()) + 1;
  GradientAccumulator sums(*backend, {{.name = "odd", .shape = {2}, .gradient = elements.data()}});
  EXPECT_EQ(error_of<std::out_of_range>([&] { sums.set_gradient(1, nullptr); }),
            "GradientAccumulator: there is no parameter 1 (it has 1)");
  const std::string unaligned =
      "accumulation: gradient: odd: must be aligned to its elements of 4 bytes";
  EXPECT_EQ(error_of<std::invalid_argument>([&] { sums.set_gradient(0, between); }), unaligned);
  EXPECT_EQ(error_of<std::invalid_argument>([&] {
              GradientAccumulator(
                  *backend, {{.name = "odd", .shape = {2}, .gradient = {between, Type::float32}}});
            }),
            unaligned);
}

TEST_P(Accumulation, ClipsTheNormOfTensorsWithoutAnOptimizer) {
  ToyModel<float> model(awkward_shapes(), 1, backend.get());
  auto parameters = parameters_of(model);
  parameters[6].gradient.data = nullptr;
  double squares = 0;
  for (std::size_t t = 0; t < model.tensors.size(); ++t)
    for (const float g : model.tensors[t].gradient)
      squares += t == 6 ? 0 : static_cast<double>(g) * static_cast<double>(g);
  const double norm = std::sqrt(squares);
  const auto tensors = model.tensors;  // on the CPU gradients are clipped where they were made

  EXPECT_NEAR(clip_gradient_norm(*backend, parameters, 1e3), norm, 1e-12 * norm);
  EXPECT_EQ(fetch<float>(model.parameter(4).gradient, 72), tensors[4].gradient);
  EXPECT_NEAR(clip_gradient_norm(*backend, parameters, 2), norm, 1e-12 * norm);
  const auto factor = static_cast<float>(2 / (norm + 1e-6));
  for (std::size_t t = 0; t < model.tensors.size(); ++t) {
    std::vector<float> expected = tensors[t].gradient;
    for (float& g : expected) g = t == 6 ? g : factor * g;
    EXPECT_EQ(fetch<float>(model.parameter(t).gradient, expected.size()), expected) << t;
  }
  EXPECT_NEAR(clip_gradient_norm(*backend, parameters, 2), 2, 1e-5);

  EXPECT_EQ(clip_gradient_norm(*backend, {}, 1), 0);
  model.tensors[3].gradient[0] = std::nanf("");
  model.send_gradients();
  EXPECT_TRUE(std::isnan(clip_gradient_norm(*backend, parameters, 1)));
  EXPECT_EQ(fetch<float>(model.parameter(4).gradient, 72), model.tensors[4].gradient);
  EXPECT_NE(error_of<std::invalid_argument>([&] {
              clip_gradient_norm(*backend, parameters, 0);
            }).find("max_norm must be in (0, inf), got 0"),
            std::string::npos);
  parameters[4].gradient.strides.assign(parameters[4].shape.size(), 0);
  EXPECT_NE(error_of<std::invalid_argument>([&] {
              clip_gradient_norm(*backend, parameters, 1);
            }).find("elements of it share memory"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Places, Accumulation, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
