// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/buffer.h"
#include "kernels/rules/factor_layout.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

using kernels::Float16;
using Numbers = std::vector<double>;

class Float16Roots : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require(GetParam()); }
};

/// An array with a root in float16, made of a dense X by pack_roots().
template <typename Real>
class PackedRoot {
 public:
  PackedRoot(kernels::Backend& backend, std::int64_t side)
      : side_(side),
        numbers(static_cast<std::size_t>(kernels::array_elements(
                    kernels::FactorLayout::with_float16_root, side, sizeof(Real))),
                Real(7)),
        backend_(backend) {}

  /// Returns the flag. Waits.
  std::int32_t pack(const std::vector<Real>& x) {
    const kernels::Buffer dense(backend_, x.size() * sizeof(Real)), flag(backend_, 4);
    const kernels::Buffer array(backend_, numbers.size() * sizeof(Real));
    const kernels::Buffer table(backend_, sizeof(void*));
    void* const first = array.data();
    std::int32_t failed = 0;
    backend_.upload(dense.data(), x.data(), dense.bytes());
    backend_.upload(array.data(), numbers.data(), array.bytes());
    backend_.upload(table.data(), &first, sizeof first);
    backend_.upload(flag.data(), &failed, sizeof failed);
    const Type type = sizeof(Real) == 4 ? Type::float32 : Type::float64;
    const kernels::SquareMatrixBatch from{type, side_, 1, 0, dense.data()};
    const kernels::FactorBatch to{type,
                                  side_,
                                  1,
                                  0,
                                  static_cast<void* const*>(table.data()),
                                  kernels::FactorLayout::with_float16_root};
    backend_.pack_roots({&from, 1}, {}, {&to, 1}, static_cast<std::int32_t*>(flag.data()));
    backend_.download(numbers.data(), array.data(), array.bytes());
    backend_.download(&failed, flag.data(), sizeof failed);
    backend_.synchronize();
    return failed;
  }

  double scale(std::int64_t i) const {
    return static_cast<double>(numbers[static_cast<std::size_t>(kernels::scales_begin(side_) + i)]);
  }
  double at(std::int64_t i, std::int64_t j) const {
    const Float16 c = kernels::float16_root_of(numbers.data(), side_)[i * (i + 1) / 2 + j];
    return static_cast<double>(kernels::to_float(c)) * scale(i) * scale(j);
  }

 private:
  std::int64_t side_;

 public:
  std::vector<Real> numbers;

 private:
  kernels::Backend& backend_;
};

/// D (B B^T + I) D with D from 2^-20 to 2^20
template <typename Real>
std::vector<Real> definite(std::int64_t n) {
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> power(-20, 20);
  Numbers b(static_cast<std::size_t>(n * n)), d(static_cast<std::size_t>(n));
  for (double& x : b) x = normal(random);
  for (double& x : d) x = std::exp2(power(random));
  std::vector<Real> a(b.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = i == j ? 1 : 0;
      for (std::int64_t k = 0; k < n; ++k) sum += b[i * n + k] * b[j * n + k];
      a[i * n + j] = a[j * n + i] = static_cast<Real>(sum * d[i] * d[j]);
    }
  return a;
}

template <typename Real>
void expect_bound(kernels::Backend& backend, std::int64_t n) {
  const std::vector<Real> x = definite<Real>(n);
  PackedRoot<Real> root(backend, n);
  ASSERT_EQ(root.pack(x), 0);
  for (std::int64_t i = 0; i < n; ++i) {
    const double diagonal = static_cast<double>(x[i * (n + 1)]), d = root.scale(i);
    int exponent = 0;
    ASSERT_EQ(std::frexp(d, &exponent), 0.5) << "a power of two";
    ASSERT_LE(d * d, diagonal);
    ASSERT_GT(4 * d * d, diagonal);
    for (std::int64_t j = 0; j <= i; ++j) {
      const double exact = static_cast<double>(x[i * n + j]);
      ASSERT_LE(std::abs(root.at(i, j) - exact),
                0x1p-11 * std::abs(exact) + 0x1p-25 * d * root.scale(j))
          << i << ", " << j;
      ASSERT_EQ(root.numbers[static_cast<std::size_t>(i * (i + 1) / 2 + j)], Real(7)) << "factor";
    }
  }
}

TEST_P(Float16Roots, AreWithinTheirErrorBound) {
  const auto backend = backend_at(GetParam());
  for (const std::int64_t side : {1, 2, 13, 64, 65, 131}) {
    expect_bound<float>(*backend, side);
    expect_bound<double>(*backend, side);
  }
}

TEST_P(Float16Roots, StayWhereTheNewOneIsNotFinite) {
  const auto backend = backend_at(GetParam());
  PackedRoot<float> root(*backend, 70);
  std::vector<float> x = definite<float>(70);
  ASSERT_EQ(root.pack(x), 0);
  const std::vector<float> before = root.numbers;
  x[69 * 70 + 3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(root.pack(x), 0);
  EXPECT_EQ(std::memcmp(root.numbers.data(), before.data(), before.size() * sizeof(float)), 0);
  x = definite<float>(70);
  x[3 * 70 + 69] = x[69 * 70 + 3] = 1e38F;  // far above what a definite matrix has
  EXPECT_NE(root.pack(x), 0);
}

const StateTensor& slot_of(const StateDict& state, const std::string& parameter,
                           const std::string& slot) {
  for (const StateTensor& tensor : state.tensors)
    if (tensor.parameter == parameter && tensor.slot == slot) return tensor;
  throw std::out_of_range(slot);
}

/// The stored root of a dimension, dense.
Numbers root_of(const StateDict& state, const std::string& parameter, std::size_t k,
                std::size_t n) {
  const StateTensor& c = slot_of(state, parameter, "root/" + std::to_string(k));
  const StateTensor& d = slot_of(state, parameter, "root_scale/" + std::to_string(k));
  EXPECT_EQ(c.type, Type::float16);
  std::vector<Float16> halves(n * (n + 1) / 2);
  std::vector<float> scales(n);
  EXPECT_EQ(c.bytes.size(), halves.size() * sizeof(Float16));
  EXPECT_EQ(d.bytes.size(), scales.size() * sizeof(float));
  std::memcpy(halves.data(), c.bytes.data(), c.bytes.size());
  std::memcpy(scales.data(), d.bytes.data(), d.bytes.size());
  Numbers dense(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      dense[i * n + j] = dense[j * n + i] =
          static_cast<double>(kernels::to_float(halves[i * (i + 1) / 2 + j])) *
          static_cast<double>(scales[i]) * static_cast<double>(scales[j]);
  return dense;
}

/// x x_k R for the dimension k of side n with `after` elements behind each of its places
Numbers contracted(const Numbers& x, const Numbers& r, std::size_t n, std::size_t after) {
  Numbers y(x.size(), 0);
  for (std::size_t e = 0; e < x.size(); ++e) {
    const std::size_t i = e / after % n, first = e - i * after;
    for (std::size_t j = 0; j < n; ++j) y[e] += r[i * n + j] * x[first + j * after];
  }
  return y;
}

Numbers absolute(Numbers x) {
  for (double& number : x) number = std::abs(number);
  return x;
}

/// The trace of a root of n x n numbers.
double trace_of(const Numbers& root, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::abs(root[i * (n + 1)]);
  return sum;
}

TEST_P(Float16Roots, MultiplyAsTheyAreStored) {
  const auto backend = backend_at(GetParam());
  const std::vector<std::vector<std::int64_t>> shapes{{9, 8},   {13},     {3, 4, 5},
                                                      {70, 33}, {66, 70}, {129, 2}};
  ToyModel<float> model(shapes, 1, backend.get());
  Recipe recipe = quick_recipe();
  recipe.preconditioner = RootInverse{.root_type = Type::float16};
  recipe.grafting = std::nullopt;
  recipe.filter = false;
  recipe.blocking = {.size = 130, .target_order = grouping::any_order};
  recipe.refresh = {.every = 2, .first = 2, .staggered = false};
  const auto ranks = single_rank_communicator(backend->memory_kind());
  Optimizer optimizer(*backend, *ranks,
                      {model.group(recipe, {.learning_rate = 1, .epsilon = 1e-4})});
  for (int step = 0; step < 2; ++step) optimizer.step();
  model.new_gradients();
  const auto before = model.values();
  optimizer.step();  // without a refresh
  const auto after = model.values();
  const StateDict state = optimizer.state_dict();
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    const auto& tensor = model.tensors[t];
    Numbers p(tensor.gradient.begin(), tensor.gradient.end()), size = absolute(p);
    std::size_t behind = p.size(), terms = 0;
    double scale = 0;  // |F| tr R_1 tr R_2
    for (const double x : p) scale += x * x;
    scale = std::sqrt(scale);
    for (std::size_t k = 0; k < shapes[t].size(); ++k) {
      const auto n = static_cast<std::size_t>(shapes[t][k]);
      behind /= n;
      terms += n;
      const Numbers r = root_of(state, tensor.name, k, n);
      p = contracted(p, r, n, behind);
      size = contracted(size, absolute(r), n, behind);
      scale *= trace_of(r, n);
    }
    // Of two long sides a device rounds F, both roots and the product between to float16, each by
    // 2^-11 of itself or 2^-39 of |F| or a trace, 2^-38 of both; a norm of such errors is at most
    // 66 to 70 times as large.
    const bool narrow = GetParam() != Place::cpu && shapes[t] == std::vector<std::int64_t>{66, 70};
    const double of_size = narrow ? std::pow(1 + 0x1p-11, 4) - 1 : 0;
    const double of_scale = narrow ? 5 * 70 * 0x1p-39 * scale : 0;
    // Every product of a dimension adds one rounding of 2^-24 per term and one per sum; then W - P.
    for (std::size_t e = 0; e < p.size(); ++e) {
      const double w = static_cast<double>(before[t][e]);
      ASSERT_NEAR(static_cast<double>(after[t][e]), w - p[e],
                  0x1p-23 * (static_cast<double>(terms) * size[e] + std::abs(w) + std::abs(p[e])) +
                      of_size * size[e] + of_scale)
          << tensor.name << ", element " << e;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Float16Roots, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(StateOfFloat16Roots, TakesSixBytesPerElementOfATriangle) {
  Recipe recipe = quick_recipe();
  recipe.preconditioner = RootInverse{.root_type = Type::float16};
  recipe.grafting = std::nullopt;
  recipe.filter = false;
  ToyModel<float> model({{7, 4}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  const Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
  // a scale per row; 28 and 10 elements of a triangle
  EXPECT_EQ(optimizer.state_bytes(), 6 * (28 + 10) + 4 * (7 + 4));
  EXPECT_EQ(optimizer.slot_names("tensor0", 0),
            (std::vector<std::string>{"factor/0", "root/0", "root_scale/0", "factor/1", "root/1",
                                      "root_scale/1"}));
}

TEST(StateOfFloat16Roots, IsComputedFromTheFactorsOfOneInFloat32AndBack) {
  Trainee narrow = small;
  std::get<RootInverse>(narrow.recipes[0].preconditioner).root_type = Type::float16;
  const auto load = [](const Trainee& from, const Trainee& to) {
    const StateDict state = train_first<float>(from, {}).state;
    Alone alone(to);
    const LoadReport report =
        alone.job.optimizer->load_state_dict(state, {.strict = false, .keep_recipes = true});
    EXPECT_TRUE(report.missing.empty());
    for (const StateTensor& tensor : alone.job.optimizer->state_dict().tensors) {
      if (!tensor.slot.starts_with("factor")) continue;
      const auto same = std::ranges::find(state.tensors, tensor.name(), &StateTensor::name);
      EXPECT_EQ(tensor.bytes, same->bytes) << tensor.name();
    }
    alone.job.train(steps_before, steps_before + 1);
    return report;
  };
  // Roots of a 9 x 8 matrix in blocks of 8, of two vectors, of three blocks of a 20 x 3 matrix.
  const std::size_t roots = 4 + 2 + 6;
  EXPECT_EQ(load(small, narrow).recomputed.size(), 2 * roots);
  EXPECT_EQ(load(narrow, small).recomputed.size(), roots);
  EXPECT_EQ(load(narrow, small).unexpected.size(), roots) << "scales";
  EXPECT_TRUE(load(narrow, narrow).recomputed.empty());
}

}  // namespace
}  // namespace shampoo::test
