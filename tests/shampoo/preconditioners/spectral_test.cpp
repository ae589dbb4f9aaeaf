// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>

#include "tests/shampoo/protocol/captured_step.h"
#include "tests/shampoo/state/state_job.h"

namespace shampoo::test {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

/// Muon as [Jordan 2024] gives it, in plain loops: M <- beta M + G, U = G + beta M with Nesterov.
class PlainMuon {
 public:
  PlainMuon(std::int64_t rows, std::int64_t columns, std::vector<double> value)
      : rows_(rows), columns_(columns), value_(std::move(value)), momentum_(value_.size(), 0) {}

  void step(const std::vector<double>& gradient, const Rates& rates, bool nesterov) {
    std::vector<double> u(value_.size());
    for (std::size_t i = 0; i < u.size(); ++i) {
      momentum_[i] = rates.beta1 * momentum_[i] + gradient[i];
      u[i] = nesterov ? gradient[i] + rates.beta1 * momentum_[i] : momentum_[i];
    }
    orthogonalize(u);
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows_, columns_)));
    for (std::size_t i = 0; i < u.size(); ++i)
      value_[i] -= rates.learning_rate * (rates.weight_decay * value_[i] + scale * u[i]);
  }

  const std::vector<double>& value() const { return value_; }

 private:
  void orthogonalize(std::vector<double>& x) const {
    const std::int64_t m = rows_, n = columns_;
    const double size = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
    for (double& e : x) e /= size;
    for (int i = 0; i < 5; ++i) {
      // X <- (a + b X X^T + c (X X^T)^2) X
      const auto times_gram = [&](const std::vector<double>& y) {
        std::vector<double> gram(static_cast<std::size_t>(m * m)), result(y.size());
        for (std::int64_t r = 0; r < m; ++r)
          for (std::int64_t c = 0; c < m; ++c)
            for (std::int64_t k = 0; k < n; ++k) gram[r * m + c] += x[r * n + k] * x[c * n + k];
        for (std::int64_t r = 0; r < m; ++r)
          for (std::int64_t c = 0; c < m; ++c)
            for (std::int64_t k = 0; k < n; ++k)
              result[r * n + k] += gram[r * m + c] * y[c * n + k];
        return result;
      };
      const std::vector<double> once = times_gram(x), twice = times_gram(once);
      for (std::size_t e = 0; e < x.size(); ++e)
        x[e] = 3.4445 * x[e] - 4.7750 * once[e] + 2.0315 * twice[e];
    }
  }

  std::int64_t rows_, columns_;
  std::vector<double> value_, momentum_;
};

TEST(Muon, IsMuonInPlainLoops) {
  // The convolution is a matrix of 4 x 12.
  const Shapes shapes = {{12, 5}, {5, 12}, {7, 7}, {4, 3, 2, 2}};
  for (const bool nesterov : {true, false}) {
    ToyModel<double> model(shapes);
    Recipe recipe = recipes::muon();
    recipe.arithmetic = Arithmetic::float64;
    Rates rates = recipes::muon_rates();
    if (!nesterov) rates.beta3.reset();
    std::vector<PlainMuon> plain;
    for (const auto& tensor : model.tensors)
      plain.emplace_back(tensor.shape[0], std::ssize(tensor.value) / tensor.shape[0], tensor.value);
    const auto backend = cpu_backend({.threads = 2});
    const auto ranks = single_rank_communicator();
    Optimizer optimizer(*backend, *ranks, {model.group(recipe, rates)});
    for (int step = 0; step < 10; ++step) {
      model.new_gradients();
      optimizer.step();
      for (std::size_t t = 0; t < plain.size(); ++t)
        plain[t].step(model.tensors[t].gradient, rates, nesterov);
    }
    // A direction's rounding: 5 steps with 3 sums of up to 12 terms, grown by at most 4^5; ten
    // of them are added.
    const double bound = 10 * 5 * 3 * 12 * std::pow(4, 5) * 0x1p-53;
    for (std::size_t t = 0; t < plain.size(); ++t)
      for (std::size_t i = 0; i < plain[t].value().size(); ++i)
        EXPECT_NEAR(model.values()[t][i], plain[t].value()[i], bound) << nesterov << t;
  }
}

std::string refusal(const Shapes& shapes, const Recipe& recipe) {
  ToyModel<float> model(shapes);
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  return error_of<std::invalid_argument>(
      [&] { Optimizer(*backend, *ranks, {model.group(recipe)}); });
}

TEST(Muon, RefusesWhatIsNoMatrixAndNamesAnotherGroup) {
  for (const std::vector<std::int64_t>& shape : Shapes{{}, {1}, {13}, {1, 7}, {7, 1}})
    expect_says(refusal({{9, 8}, shape}, recipes::muon()),
                {"group 0", "'tensor1'", "matrices", "another group", "recipes::adamw()"});
  Recipe unmerged = recipes::muon();
  unmerged.blocking.target_order = grouping::any_order;
  expect_says(refusal({{9, 8}, {2, 3, 4}}, unmerged),
              {"'tensor1'", "3 dimensions", "target_order"});
  EXPECT_EQ(refusal({{1, 7}, {7, 1}, {0, 5}}, unmerged), "") << "sides of 1 are kept";
  EXPECT_EQ(refusal({{2, 3, 4}, {0}}, recipes::muon()), "");
}

TEST(Muon, AGroupWithAVectorChangesNothing) {
  Alone alone;
  ToyModel<float> other({{9, 8}, {13}}, 2);
  for (auto& tensor : other.tensors) tensor.name += "b";
  const auto before = state_of(*alone.job.optimizer, alone.job.model);
  EXPECT_THROW(alone.job.optimizer->add_group(other.group(recipes::muon())), std::invalid_argument);
  EXPECT_EQ(alone.job.optimizer->group_count(), 1);
  EXPECT_EQ(state_of(*alone.job.optimizer, alone.job.model), before);
}

TEST(Muon, OptionsOutOfRangeAreNamed) {
  const auto says = [](const Orthogonalizer& solver, const std::string& field) {
    Recipe recipe = recipes::muon();
    recipe.preconditioner = Spectral{.solver = solver};
    expect_says(refusal({{9, 8}}, recipe), {"group 0", field});
  };
  says(NewtonSchulz{.iterations = 0}, "iterations");
  says(NewtonSchulz{.coefficients = {1, 2, std::nan("")}}, "coefficients");
  says(PolarExpress{.kappa_max = 0.5}, "kappa_max");
  says(PolarExpress{.kappa_max = 1e5}, "kappa_max");
  says(PolarExpress{.tolerance = 1e-7}, "tolerance");
  says(PolarExpress{.tolerance = 1}, "tolerance");
}

const Shapes matrices = {{9, 8}, {8, 9}, {20, 3}, {3, 4, 5}, {9, 8}, {66, 70}};

class MuonOnADevice : public ::testing::TestWithParam<Orthogonalizer> {
 protected:
  Recipe recipe() const {
    Recipe recipe = recipes::muon();
    recipe.preconditioner = Spectral{.solver = GetParam(), .scale = SpectralScale::spectral};
    return recipe;
  }

  /// Plain steps against replays of the second one, which a solver on the host refuses.
  void expect_replays(const Recipe& recipe) const {
    DeviceJob plain(recipe, matrices), replayed(recipe, matrices);
    std::optional<Graph> graph;
    for (int step = 0; step < 6; ++step) {
      for (DeviceJob* const job : {&plain, &replayed}) {
        job->model.new_gradients();
        job->optimizer->group(0).rates.learning_rate = 1e-3 * (step + 1);
        job->set_present(1, step % 3 != 0);
      }
      plain.optimizer->step();
      replayed.optimizer->prepare_step();
      if (step == 0) {
        replayed.optimizer->enqueue_step();
        continue;
      }
      if (std::holds_alternative<Svd>(GetParam())) {
        expect_says(error_of<std::logic_error>([&] { capture(replayed); }), {"svd", "captured"});
        return;
      }
      if (!graph) graph = capture(replayed);
      replayed.device.replay(*graph);
    }
    EXPECT_EQ(replayed.values(), plain.values());
    EXPECT_EQ(replayed.state(), plain.state());
  }
};

TEST_P(MuonOnADevice, IsReplayedFromAGraphUnlessItHasHostSteps) { expect_replays(recipe()); }

TEST_P(MuonOnADevice, IsReplayedAcrossTheEndOfTheGraftingsSteps) {
  Recipe grafted = recipe();
  grafted.grafting = Recipe().grafting;
  grafted.refresh.first = 4;
  expect_replays(grafted);
}

std::string name_of_solver(const testing::TestParamInfo<Orthogonalizer>& info) {
  return std::visit([](const auto& solver) { return std::string(solver.name); }, info.param);
}

INSTANTIATE_TEST_SUITE_P(Of, MuonOnADevice,
                         ::testing::Values(NewtonSchulz{}, PolarExpress{}, Svd{}), name_of_solver);

}  // namespace
}  // namespace shampoo::test
