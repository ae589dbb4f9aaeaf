// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

constexpr std::uint16_t bfloat16_one = 0x3f80, bfloat16_two = 0x4000, bfloat16_infinity = 0x7f80;

/// A matrix 3 x 2 whose gradient has rows of 4, with -7 in the gap; a scalar in bfloat16; a side of
/// 0; a frozen vector. The gradients of a rank are r + 1, those of the scalar 1, 2, 3.
struct Tensors {
  explicit Tensors(int rank) { set_gradients(rank); }

  void set_gradients(int rank) {
    matrix_gradient.assign(12, -7.0f);
    for (const int i : {0, 1, 4, 5, 8, 9}) matrix_gradient[i] = static_cast<float>(rank + 1);
    scalar_gradient = std::uint16_t(rank == 0 ? bfloat16_one : rank == 1 ? bfloat16_two : 0x4040);
    frozen_gradient.assign(5, static_cast<float>(rank + 1));
  }

  std::vector<ParameterGroup> groups() {
    return {{.parameters = {{.name = "matrix",
                             .shape = {3, 2},
                             .value = matrix.data(),
                             .gradient = {matrix_gradient.data(), Type::float32, {4, 1}}},
                            {.name = "empty", .shape = {0, 3}, .value = &nothing}}},
            {.parameters = {{.name = "scalar",
                             .value = {&scalar, Type::bfloat16},
                             .gradient = {&scalar_gradient, Type::bfloat16}},
                            {.name = "frozen",
                             .shape = {5},
                             .value = frozen.data(),
                             .gradient = frozen_gradient.data(),
                             .frozen = true}},
             .recipe = recipes::adamw()}};
  }

  std::vector<float> matrix = std::vector<float>(6), frozen = std::vector<float>(5);
  std::vector<float> matrix_gradient, frozen_gradient;
  std::uint16_t scalar = 0, scalar_gradient;
  float nothing = 0;
};

using Body = std::function<void(Communicator&, Tensors&, Optimizer&)>;

void on_three_ranks(const Body& body, const OptimizerOptions& options = {}) {
  run_ranks(3, [&](Communicator& ranks) {
    ranks.set_deadline(std::chrono::seconds(20));
    const auto backend = cpu_backend({.threads = 1});
    Tensors tensors(ranks.rank());
    Optimizer optimizer(*backend, ranks, tensors.groups(), options);
    body(ranks, tensors, optimizer);
  });
}

TEST(AverageGradients, OfEveryTypeAndLayoutLeavesGapsAlone) {
  on_three_ranks([](Communicator&, Tensors& tensors, Optimizer& optimizer) {
    optimizer.average_gradients();

    EXPECT_EQ(tensors.matrix_gradient,
              (std::vector<float>{2, 2, -7, -7, 2, 2, -7, -7, 2, 2, -7, -7}));
    EXPECT_EQ(tensors.scalar_gradient, bfloat16_two);
    EXPECT_EQ(tensors.frozen_gradient, std::vector<float>(5, 2.0f));
    EXPECT_TRUE(optimizer.step().applied());
  });
}

TEST(AverageGradients, AnAbsentOneCountsAsZerosWhereAnotherRankHasIt) {
  on_three_ranks([](Communicator& ranks, Tensors& tensors, Optimizer& optimizer) {
    Group& group = optimizer.group(0);
    optimizer.group(1).set_gradient(0, nullptr);
    if (ranks.rank() == 1) group.set_gradient(0, nullptr);

    optimizer.average_gradients();

    // (1 + 0 + 3) / 3
    const auto* const mean = static_cast<const float*>(group.parameters()[0].gradient.data);
    for (const int i : {0, 1, 4, 5, 8, 9}) EXPECT_FLOAT_EQ(mean[i], 4.0f / 3);
    optimizer.average_gradients();
    EXPECT_EQ(group.parameters()[0].gradient.data, mean);
    for (const int i : {0, 1, 4, 5, 8, 9}) EXPECT_FLOAT_EQ(mean[i], 4.0f / 3) << "of equal ones";
    EXPECT_EQ(mean == tensors.matrix_gradient.data(), ranks.rank() != 1);
    EXPECT_EQ(optimizer.group(1).parameters()[0].gradient.data, nullptr);
    EXPECT_TRUE(optimizer.step().applied());
    EXPECT_EQ(optimizer.steps("matrix"), 1);
    EXPECT_EQ(optimizer.steps("scalar"), 0);
    EXPECT_EQ(group.parameters()[0].gradient.data == nullptr, ranks.rank() == 1);

    // Once more, in other memory of the optimizer's.
    optimizer.average_gradients();
    optimizer.average_gradients();
    EXPECT_TRUE(optimizer.step().applied());
    EXPECT_EQ(optimizer.steps("matrix"), 2);

    // Nobody has it now.
    if (ranks.rank() != 1) group.set_gradient(0, nullptr);
    optimizer.average_gradients();
    EXPECT_EQ(group.parameters()[0].gradient.data, nullptr);
    EXPECT_TRUE(optimizer.step().applied());
    EXPECT_EQ(optimizer.steps("matrix"), 2);
  });
}

/// (1 + 0 + 3) / 3, as rank 1 has none.
void expect_mean_without_rank_1(Optimizer& optimizer) {
  const Tensor& gradient = optimizer.group(0).parameters()[0].gradient;
  ASSERT_NE(gradient.data, nullptr);
  for (const int i : {0, 1, 4, 5, 8, 9})
    EXPECT_FLOAT_EQ(static_cast<const float*>(gradient.data)[i], 4.0f / 3);
}

TEST(AverageGradients, OfARefusedStepAreThereForItsRepetitionAndNotForTheNextMean) {
  const auto body = [](Communicator& ranks, Tensors& tensors, Optimizer& optimizer) {
    Group& group = optimizer.group(0);
    const auto rate = group.rates.learning_rate;
    const auto refused_step = [&](bool on_all = false) {
      if (on_all || ranks.rank() == 0) group.rates.learning_rate = -1;
      EXPECT_THROW(optimizer.step(), std::exception);
      EXPECT_EQ(optimizer.failure(), "");
      group.rates.learning_rate = rate;
    };
    if (ranks.rank() == 1) group.set_gradient(0, nullptr);

    optimizer.average_gradients();
    refused_step();
    expect_mean_without_rank_1(optimizer);
    EXPECT_TRUE(optimizer.step().applied());
    EXPECT_EQ(optimizer.steps("matrix"), 1);
    EXPECT_EQ(group.parameters()[0].gradient.data == nullptr, ranks.rank() == 1);

    for (const bool on_all : {false, true}) {
      tensors.set_gradients(ranks.rank());
      optimizer.average_gradients();
      refused_step(on_all);
      tensors.set_gradients(ranks.rank());
      optimizer.average_gradients();
      expect_mean_without_rank_1(optimizer);
    }
    optimizer.average_gradients();
    expect_mean_without_rank_1(optimizer);

    // Nobody has it now.
    refused_step();
    if (ranks.rank() != 1) group.set_gradient(0, nullptr);
    optimizer.average_gradients();
    EXPECT_EQ(group.parameters()[0].gradient.data, nullptr);
    EXPECT_TRUE(optimizer.step().applied());
    EXPECT_EQ(optimizer.steps("matrix"), 1);
  };
  on_three_ranks(body, {.agree_before_commit = true});
}

TEST(AverageGradients, OfAStepWhoseGradientIsNotFiniteDoNotEnterTheNextMean) {
  const auto body = [](Communicator& ranks, Tensors& tensors, Optimizer& optimizer) {
    if (ranks.rank() == 1) optimizer.group(0).set_gradient(0, nullptr);

    optimizer.average_gradients();
    tensors.scalar_gradient = bfloat16_infinity;
    EXPECT_THROW(optimizer.step(), NumericalError);
    EXPECT_EQ(optimizer.failure(), "");
    tensors.set_gradients(ranks.rank());
    optimizer.average_gradients();

    expect_mean_without_rank_1(optimizer);
    EXPECT_TRUE(optimizer.step().applied());
  };
  on_three_ranks(body, {.non_finite = NonFinite::error});
}

TEST(AverageGradients, ZerosMayBeTheCallers) {
  on_three_ranks([](Communicator& ranks, Tensors&, Optimizer& optimizer) {
    Group& group = optimizer.group(1);
    if (ranks.rank() < 2) group.set_gradient(1, nullptr);
    std::vector<float> own(5);
    std::vector<std::string> asked;

    optimizer.average_gradients([&](const Parameter& parameter) {
      asked.push_back(parameter.name);
      return own.data();
    });

    EXPECT_EQ(asked, std::vector<std::string>(ranks.rank() < 2 ? 1 : 0, "frozen"));
    EXPECT_EQ(own, std::vector<float>(5, ranks.rank() < 2 ? 1.0f : 0.0f));
    EXPECT_TRUE(optimizer.step().applied());
  });
}

TEST(AverageGradients, OfAThawedParameterAreThoseOfItsNewGroup) {
  on_three_ranks([](Communicator& ranks, Tensors& tensors, Optimizer& optimizer) {
    std::vector<float> gradient(5, static_cast<float>(ranks.rank()));
    optimizer.add_group({.parameters = {{.name = "frozen",
                                         .shape = {5},
                                         .value = tensors.frozen.data(),
                                         .gradient = gradient.data()}},
                         .recipe = recipes::adamw()});

    optimizer.average_gradients();

    EXPECT_EQ(gradient, std::vector<float>(5, 1.0f));
    EXPECT_EQ(tensors.frozen_gradient, std::vector<float>(5, static_cast<float>(ranks.rank() + 1)));
    EXPECT_TRUE(optimizer.step().applied());
  });
}

TEST(AverageGradients, ThatMayNotBeWrittenOnOneRankAreOnNone) {
  on_three_ranks([](Communicator& ranks, Tensors& tensors, Optimizer& optimizer) {
    optimizer.average_gradients();
    tensors.frozen_gradient.assign(5, static_cast<float>(ranks.rank()));
    const std::vector<float> before = tensors.frozen_gradient;
    if (ranks.rank() == 1) optimizer.prepare_step();
    EXPECT_EQ(error_of<std::logic_error>([&] { optimizer.average_gradients(); }),
              "rank 1: average_gradients: must be called before prepare_step()");
    EXPECT_EQ(tensors.frozen_gradient, before);

    tensors.frozen_gradient.assign(5, 1.0f);
    if (ranks.rank() != 1) optimizer.prepare_step();
    EXPECT_TRUE(optimizer.enqueue_step().applied());
  });
}

TEST(AverageGradients, AnErrorOfOneRankIsOneOfAll) {
  on_three_ranks([](Communicator& ranks, Tensors&, Optimizer& optimizer) {
    if (ranks.rank() == 2) optimizer.group(0).set_gradient(0, nullptr);
    const auto average = [&] {
      optimizer.average_gradients([](const Parameter&) { return nullptr; });
    };
    EXPECT_NE(error_of<CommunicationError>(average).find(
                  "it could not take part in averaging gradients: group 0, parameter 'matrix': "
                  "zeros: must not be null"),
              std::string::npos);
    EXPECT_NE(optimizer.failure(), "");
  });
}

TEST(AverageGradients, OfOneRankAreItsOwnAndAbsentOnesStaySo) {
  const auto backend = cpu_backend({.threads = 1});
  const auto alone = single_rank_communicator(MemoryKind::host);
  Tensors tensors(2);
  Optimizer optimizer(*backend, *alone, tensors.groups());
  optimizer.group(0).set_gradient(0, nullptr);

  optimizer.average_gradients();

  EXPECT_EQ(optimizer.group(0).parameters()[0].gradient.data, nullptr);
  EXPECT_EQ(tensors.frozen_gradient, std::vector<float>(5, 3.0f));
  optimizer.prepare_step();
  EXPECT_EQ(error_of<std::logic_error>([&] { optimizer.average_gradients(); }),
            "average_gradients: must be called before prepare_step()");
  optimizer.enqueue_step();
}

}  // namespace
}  // namespace shampoo::test
