// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tests/shampoo/toy_model.h"
#include "tests/support/near.h"

// Averages of iterates against plain loops in double that store X, which the library does not.

namespace shampoo::test {
namespace {

using Vector = std::vector<double>;

constexpr std::size_t equation_size = 12;

/// In float64, without a preconditioner and a first moment: the direction is the gradient.
Recipe sgd(const Averaging& averaging) {
  return {.preconditioner = Sgd{},
          .grafting = std::nullopt,
          .averaging = averaging,
          .arithmetic = Arithmetic::float64};
}

class Iterates : public ::testing::Test {
 protected:
  Optimizer optimizer_of(const Recipe& recipe, const Rates& rates) {
    return {*backend, *ranks, {model.group(recipe, rates)}};
  }
  Vector values() const { return model.values()[0]; }
  const Vector& gradient() const { return model.tensors[0].gradient; }

  std::unique_ptr<Backend> backend = cpu_backend();
  std::unique_ptr<Communicator> ranks = single_rank_communicator();
  ToyModel<double> model{{{4, 3}}};
};

/// X and Z next to each other; see IterateAveraging for W.
struct Loop {
  explicit Loop(const Vector& start) : x(start), z(start) {}

  /// Z <- (1 - decay) Z - step ; X <- (1 - c) X + c Z
  template <typename Direction>
  void step(double decay, double learning_rate, double c, const Direction& direction) {
    for (std::size_t i = 0; i < equation_size; ++i) {
      z[i] = (1 - decay) * z[i] - learning_rate * direction(i);
      x[i] += c * (z[i] - x[i]);
    }
  }
  Vector trained(double mu_y) const {
    Vector w(equation_size);
    for (std::size_t i = 0; i < equation_size; ++i) w[i] = mu_y * x[i] + (1 - mu_y) * z[i];
    return w;
  }

  Vector x, z;
};

constexpr double tolerance = 1e-13;

TEST_F(Iterates, PrimalAveragingWithoutInterpolationOfTrainingIsSgdWithMomentum) {
  constexpr double momentum = 0.75, learning_rate = 0.02;
  ToyModel<double> other({{4, 3}});
  Optimizer averaged =
      optimizer_of(sgd(PrimalAveraging{}), {.learning_rate = learning_rate / (1 - momentum),
                                            .beta1 = 0,
                                            .train_interpolation = 1,
                                            .evaluation_interpolation = momentum});
  Optimizer plain(
      *backend, *ranks,
      {other.group(sgd(Momentum{}),
                   {.learning_rate = learning_rate, .beta1 = 0, .momentum = momentum})});
  for (int step = 0; step < 20; ++step) {
    averaged.step();
    plain.step();
    ASSERT_TRUE(near(values(), other.values()[0], tolerance)) << step;
    model.new_gradients();
    other.new_gradients();
  }
}

TEST_F(Iterates, ScheduleFreeIsTheWeightedMeanOfTheIterates) {
  constexpr double mu_y = 0.7, weight_decay = 0.05;
  for (const double power : {0.0, 0.5, 2.0}) {
    Optimizer optimizer =
        optimizer_of(sgd(ScheduleFree{.power = power}),
                     {.beta1 = 0, .weight_decay = weight_decay, .train_interpolation = mu_y});
    Loop loop(values());
    double sum = 0;
    for (int step = 0; step < 15; ++step) {
      const double learning_rate = optimizer.group(0).rates.learning_rate =
          step < 5 ? 0.01 * (step + 1) : 0.05 / (step - 3);
      sum += std::pow(learning_rate, power);
      optimizer.step();
      // Decay of Z does not move X: what W means moves instead.
      for (std::size_t i = 0; i < equation_size; ++i)
        loop.x[i] += (1 - 1 / mu_y) * (-learning_rate * weight_decay * loop.z[i]);
      loop.step(learning_rate * weight_decay, learning_rate, std::pow(learning_rate, power) / sum,
                [&](std::size_t i) { return gradient()[i]; });
      ASSERT_TRUE(near(values(), loop.trained(mu_y), tolerance)) << step;
      {
        const Evaluation guard = optimizer.evaluate();
        ASSERT_TRUE(near(values(), loop.x, tolerance)) << step;
      }
      EXPECT_EQ(optimizer.state_dict().parameters[0].averaging_weight_sum, sum);
      model.new_gradients();
    }
  }
}

TEST_F(Iterates, NothingMovesWhileTheLearningRateIsZero) {
  for (const Averaging& averaging : {Averaging(ScheduleFree{}), Averaging(PrimalAveraging{})}) {
    Recipe recipe = recipes::adamw();
    recipe.averaging = averaging;
    recipe.arithmetic = Arithmetic::float64;
    Optimizer optimizer = optimizer_of(recipe, {.learning_rate = 0, .weight_decay = 0.1});
    const Vector start = values();
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(optimizer.step().applied());
      EXPECT_EQ(values(), start);
      const Evaluation guard = optimizer.evaluate();
      EXPECT_EQ(values(), start);
    }
    optimizer.group(0).rates.learning_rate = 0.01;
    optimizer.step();
    for (std::size_t i = 0; i < equation_size; ++i) {
      EXPECT_NE(values()[i], start[i]);
      EXPECT_NEAR(values()[i], start[i], 0.1);
    }
  }
}

TEST_F(Iterates, WeightsStayFiniteForAnyLearningRate) {
  Recipe recipe = sgd(ScheduleFree{});
  recipe.arithmetic = Arithmetic::float64;
  Optimizer optimizer = optimizer_of(recipe, {.learning_rate = 1e200, .beta1 = 0});
  optimizer.step();
  optimizer.step();
  for (const double value : values()) EXPECT_TRUE(std::isfinite(value));
  EXPECT_TRUE(std::isfinite(optimizer.state_dict().parameters[0].averaging_weight_sum));
}

/// Adam's direction.
class AdamLoop {
 public:
  explicit AdamLoop(const Rates& rates) : rates_(rates) {}

  Vector direction(const Vector& g) {
    ++steps_;
    Vector u(equation_size);
    for (std::size_t i = 0; i < equation_size; ++i) {
      m_[i] = rates_.beta1 * m_[i] + (1 - rates_.beta1) * g[i];
      v_[i] = rates_.beta2 * v_[i] + (1 - rates_.beta2) * g[i] * g[i];
      u[i] = m_[i] / (1 - std::pow(rates_.beta1, steps_)) /
             (std::sqrt(v_[i] / (1 - std::pow(rates_.beta2, steps_))) + rates_.epsilon);
    }
    return u;
  }

 private:
  Rates rates_;
  int steps_ = 0;
  Vector m_ = Vector(equation_size), v_ = Vector(equation_size);
};

TEST_F(Iterates, NamedRecipesAreAdamWithTheirAveraging) {
  for (const bool schedule_free : {true, false}) {
    Recipe recipe = schedule_free ? recipes::schedule_free_adamw() : recipes::gpa_adamw();
    recipe.arithmetic = Arithmetic::float64;
    Rates rates = schedule_free ? recipes::schedule_free_adamw_rates() : recipes::gpa_adamw_rates();
    rates.weight_decay = 0.1;
    Optimizer optimizer = optimizer_of(recipe, rates);
    Rates filtered = rates;
    if (schedule_free) filtered.beta1 = 0;
    AdamLoop adam(filtered);
    Vector y = values(), z = y;
    const double mu_y = rates.train_interpolation, lr = rates.learning_rate;
    for (int step = 1; step <= 12; ++step) {
      optimizer.step();
      // As the authors' code has it, with decay of z.
      const Vector u = adam.direction(gradient());
      const double c = schedule_free ? 1.0 / step : 1 - rates.evaluation_interpolation;
      for (std::size_t i = 0; i < equation_size; ++i) {
        z[i] *= 1 - lr * rates.weight_decay;
        y[i] += c * (z[i] - y[i]) + lr * (mu_y * (1 - c) - 1) * u[i];
        z[i] -= lr * u[i];
      }
      ASSERT_TRUE(near(values(), y, tolerance)) << step;
      model.new_gradients();
    }
  }
}

}  // namespace
}  // namespace shampoo::test
