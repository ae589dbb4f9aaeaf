// SPDX-License-Identifier: Apache-2.0
// Which options should be the default? A network learns another one's outputs from inputs with an
// ill-conditioned covariance, under the default recipe and under recipes that differ in one option.
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "shampoo/shampoo.h"

namespace shampoo::test {
namespace {

using Matrix = std::vector<float>;  // row-major
using Random = std::mt19937_64;
constexpr std::int64_t batch = 128, inputs = 48, hidden = 96, outputs = 8;
constexpr int seeds = 2;
constexpr double tick = 1e3 / CLOCKS_PER_SEC;  // ms

/// C += A B for A of m x k and B of k x n.
void multiply_add(const float* a, const float* b, float* c, std::int64_t m, std::int64_t k,
                  std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
}

Matrix transposed(const Matrix& a, std::int64_t rows, std::int64_t columns) {
  Matrix result(a.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) result[j * rows + i] = a[i * columns + j];
  return result;
}

/// Y = X W + b.
struct Layer {
  Layer(Random& random, std::int64_t from, std::int64_t to, double input_variance)
      : m(from), n(to), w(m * n), b(n), dw(m * n), db(n) {
    const double deviation = 1 / std::sqrt(static_cast<double>(m) * input_variance);
    std::normal_distribution<float> normal(0, static_cast<float>(deviation));
    for (float& weight : w) weight = normal(random);
  }

  Matrix forward(Matrix input) {
    x = std::move(input);
    Matrix y;
    for (std::int64_t i = 0; i < batch; ++i) y.insert(y.end(), b.begin(), b.end());
    multiply_add(x.data(), w.data(), y.data(), batch, m, n);
    return y;
  }

  /// From the gradient by Y, the gradients by W and b, and the result: the one by X.
  Matrix backward(const Matrix& delta) {
    dw.assign(w.size(), 0.0f);
    db.assign(b.size(), 0.0f);
    multiply_add(transposed(x, batch, m).data(), delta.data(), dw.data(), m, batch, n);
    for (std::int64_t i = 0; i < batch * n; ++i) db[i % n] += delta[i];
    Matrix result(x.size());
    multiply_add(delta.data(), transposed(w, m, n).data(), result.data(), batch, n, m);
    return result;
  }

  std::int64_t m, n;
  Matrix w, b, dw, db, x;
};

/// Three layers with tanh between them.
struct Network {
  Network(Random& random, double input_variance)
      : layers{Layer(random, inputs, hidden, input_variance), Layer(random, hidden, hidden, 1),
               Layer(random, hidden, outputs, 1)} {}

  Matrix forward(Matrix x) {
    for (int l = 0; l < 3; ++l) {
      if (l > 0)
        for (float& number : x) number = std::tanh(number);
      x = layers[l].forward(std::move(x));
    }
    return x;
  }

  void backward(Matrix delta) {
    for (int l = 2; l > 0; --l) {
      delta = layers[l].backward(delta);
      const Matrix& x = layers[l].x;
      for (std::size_t i = 0; i < x.size(); ++i) delta[i] *= 1 - x[i] * x[i];
    }
    layers[0].backward(delta);
  }

  std::array<Layer, 3> layers;
};

/// Fresh mini-batches for every step, and the start of the network that learns from them.
struct Problem {
  std::vector<Matrix> x, targets;  ///< per step
  Network student;
};

Problem make_problem(int seed, int steps) {
  Random random(static_cast<std::uint64_t>(seed));
  std::normal_distribution<float> normal;
  std::array<double, inputs> variances;
  for (std::int64_t i = 0; i < inputs; ++i)
    variances[i] = std::pow(1e-3, static_cast<double>(i) / (inputs - 1));
  const double mean = std::accumulate(variances.begin(), variances.end(), 0.0) / inputs;
  // The eigenvectors of the covariance: columns of a product of Householder reflections.
  std::array<std::array<float, inputs>, 8> reflections;
  for (auto& v : reflections)
    for (float& number : v) number = normal(random);
  Network teacher(random, mean);
  Problem problem{{}, {}, Network(random, mean)};
  for (int step = 0; step < steps; ++step) {
    Matrix x(batch * inputs);
    for (std::int64_t i = 0; i < batch * inputs; ++i)
      x[i] = static_cast<float>(std::sqrt(variances[i % inputs])) * normal(random);
    for (const auto& v : reflections)
      for (float* row = x.data(); row < x.data() + x.size(); row += inputs) {
        const float scale = 2 * std::inner_product(v.begin(), v.end(), row, 0.0f) /
                            std::inner_product(v.begin(), v.end(), v.begin(), 0.0f);
        for (std::int64_t i = 0; i < inputs; ++i) row[i] -= scale * v[i];
      }
    problem.targets.push_back(teacher.forward(x));
    problem.x.push_back(std::move(x));
  }
  return problem;
}

struct Setting {
  std::string name;
  Recipe recipe = {};
  Rates rates = {};
};

std::vector<ParameterGroup> groups(Network& network, const Setting& setting) {
  ParameterGroup weights{.rates = setting.rates, .recipe = setting.recipe}, biases = weights;
  weights.rates.weight_decay = 1e-4;
  for (Layer& layer : network.layers) {
    const std::string name = std::to_string(weights.parameters.size());
    weights.parameters.push_back(
        {name + ".w", {layer.m, layer.n}, {}, layer.w.data(), layer.dw.data()});
    biases.parameters.push_back({name + ".b", {layer.n}, {}, layer.b.data(), layer.db.data()});
  }
  return {weights, biases};
}

/// Linear warm-up over 30 steps, then half a cosine to 0.
double schedule(int step, int steps) {
  if (step < 30) return (step + 1) / 30.0;
  return 0.5 * (1 + std::cos(3.14159265358979 * (step - 30) / (steps - 30)));
}

struct Result {
  double rate = 0, loss = std::numeric_limits<double>::infinity();  ///< of the last 50 steps
  double milliseconds = 0;  ///< processor time of the optimizer per step
};

void train(Backend& backend, const Problem& problem, const Setting& setting, Result& result) {
  const auto alone = single_rank_communicator();
  const int steps = static_cast<int>(problem.x.size());
  Network network = problem.student;
  Optimizer optimizer(backend, *alone, groups(network, setting));
  for (int step = 0; step < steps; ++step) {
    Matrix delta = network.forward(problem.x[step]);
    for (std::size_t i = 0; i < delta.size(); ++i) {
      delta[i] -= problem.targets[step][i];
      if (step >= steps - 50) result.loss += delta[i] * delta[i] / (50.0 * batch * outputs * seeds);
      delta[i] *= 2.0f / (batch * outputs);
    }
    network.backward(std::move(delta));
    for (int g = 0; g < 2; ++g)
      optimizer.group(g).rates.learning_rate = result.rate * schedule(step, steps);
    const std::clock_t begin = std::clock();
    optimizer.step();
    result.milliseconds += static_cast<double>(std::clock() - begin) * tick / steps / seeds;
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> all = {{"default"}, {"AdamW", recipes::adamw()}};
  const auto add = [&](const std::string& name, const auto& change) {
    all.push_back({name});
    change(all.back());
  };
  for (const int every : {1, 10, 50})
    add("refresh every " + std::to_string(every),
        [&](Setting& s) { s.recipe.refresh = {.every = every, .first = every}; });
  add("at once", [](Setting& s) { s.recipe.refresh.staggered = false; });
  add("grafting none", [](Setting& s) { s.recipe.grafting.reset(); });
  add("grafting Sgd", [](Setting& s) { s.recipe.grafting = Sgd{}; });
  add("grafting Adam", [](Setting& s) { s.recipe.grafting = Adam{}; });
  add("beta2 0.99", [](Setting& s) { s.rates.beta2 = 0.99; });
  add("beta2 0.999", [](Setting& s) { s.rates.beta2 = 0.999; });
  for (const int size : {32, 64, 1024})
    add("blocks of " + std::to_string(size), [&](Setting& s) { s.recipe.blocking.size = size; });
  add("target order 1", [](Setting& s) { s.recipe.blocking.target_order = 1; });
  for (const char* floor : {"0", "1e-7", "1e-5"})
    add("Eigen, floor " + std::string(floor), [&](Setting& s) {
      s.recipe.preconditioner = RootInverse{.solver = Eigen{.relative_floor = std::stod(floor)}};
    });
  return all;
}

/// The best rate; beyond 1e-2 for as long as that helps, as directions differ in scale.
Result best_rate(Backend& backend, const std::vector<Problem>& problems, const Setting& setting) {
  Result best;
  for (double rate : {1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0}) {
    if (rate > 1e-2 && best.rate < 0.2 * rate) break;
    Result result{.rate = rate, .loss = 0};
    try {
      for (const Problem& problem : problems) train(backend, problem, setting, result);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s at %g: %s\n", setting.name.c_str(), rate, error.what());
      continue;
    }
    if (result.loss < best.loss) best = result;
  }
  return best;
}

void study(int steps) {
  const auto backend = cpu_backend({.threads = 1});
  std::vector<Problem> problems;
  for (int seed = 0; seed < seeds; ++seed) problems.push_back(make_problem(seed, steps));
  std::printf("%d steps, %d seeds; = marks what the default recipe is\n", steps, seeds);
  std::printf("setting              best rate  final loss  of default  ms/step\n");
  const Setting usual;
  const Result usual_result = best_rate(*backend, problems, usual);
  for (const Setting& setting : settings()) {
    const bool same = setting.recipe == usual.recipe && setting.rates == usual.rates;
    const Result result = same ? usual_result : best_rate(*backend, problems, setting);
    std::printf("%-18s %c %9.0e %11.3e %11.2f %8.3f\n", setting.name.c_str(), same ? '=' : ' ',
                result.rate, result.loss, result.loss / usual_result.loss, result.milliseconds);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  const std::string option = argc > 1 ? argv[1] : "";
  const bool quick = option == "--quick", help = option == "--help";
  if (help || argc > 2 || (argc == 2 && !quick)) {
    std::fputs("usage: defaults_study [--quick]\n", help ? stdout : stderr);
    return help ? 0 : 2;
  }
  shampoo::test::study(quick ? 100 : 600);
}
