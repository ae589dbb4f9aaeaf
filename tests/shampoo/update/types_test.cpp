// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/shampoo/toy_model.h"

namespace shampoo::test {
namespace {

std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float from_bfloat16(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

class Types : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend = cpu_backend();
  std::unique_ptr<Communicator> ranks = single_rank_communicator();
};

TEST_F(Types, ABfloat16ValueIsTheRoundedFloat32Run) {
  // Start from values that bfloat16 holds, so that both runs have the same masters.
  ToyModel<float> wide({{9, 8}, {13}});
  std::vector<std::vector<std::uint16_t>> narrow;
  for (auto& tensor : wide.tensors) {
    narrow.emplace_back();
    for (float& x : tensor.value) {
      narrow.back().push_back(to_bfloat16(x));
      x = from_bfloat16(narrow.back().back());
    }
  }
  ParameterGroup group = wide.group(quick_recipe(), {.weight_decay = 0.1});
  Optimizer reference(*backend, *ranks, {group});
  for (std::size_t t = 0; t < narrow.size(); ++t)
    group.parameters[t].value = Tensor(narrow[t].data(), Type::bfloat16);
  Optimizer optimizer(*backend, *ranks, {group});

  for (int step = 0; step < 6; ++step) {
    reference.step();
    optimizer.step();
    wide.new_gradients();
  }

  for (std::size_t t = 0; t < narrow.size(); ++t)
    for (std::size_t i = 0; i < narrow[t].size(); ++i)
      EXPECT_EQ(narrow[t][i], to_bfloat16(wide.tensors[t].value[i])) << t << ' ' << i;
}

TEST_F(Types, MastersFollowValuesThatWereOverwrittenOnceTheyAreReadAgain) {
  for (const bool reads : {false, true}) {
    ToyModel<float> gradients(std::vector<std::vector<std::int64_t>>{{13}});
    std::vector<std::uint16_t> values(13, to_bfloat16(1));
    ParameterGroup group = gradients.group(quick_recipe(), {.learning_rate = 1e-4});
    group.parameters[0].value = Tensor(values.data(), Type::bfloat16);
    Optimizer optimizer(*backend, *ranks, {group});
    optimizer.step();
    for (std::uint16_t& x : values) x = to_bfloat16(5);
    if (reads) optimizer.read_values();
    optimizer.step();
    for (const std::uint16_t x : values) EXPECT_NEAR(from_bfloat16(x), reads ? 5 : 1, 0.05);
  }
}

TEST_F(Types, GradientsOfAnyTypeWithTheSameNumbersGiveTheSameBits) {
  ToyModel<float> single({{9, 8}, {13}, {3, 4, 5}}), wide_run({{9, 8}, {13}, {3, 4, 5}});
  std::vector<std::vector<double>> gradients;
  ParameterGroup group = wide_run.group(quick_recipe());
  for (std::size_t t = 0; t < 3; ++t) {
    gradients.emplace_back(single.tensors[t].gradient.begin(), single.tensors[t].gradient.end());
    group.parameters[t].gradient = gradients.back().data();
  }
  Optimizer a(*backend, *ranks, {single.group(quick_recipe())});
  Optimizer b(*backend, *ranks, {group});

  for (int step = 0; step < 5; ++step) {
    a.step();
    b.step();
  }

  EXPECT_EQ(single.values(), wide_run.values());
}

TEST_F(Types, StridedTensorsGiveTheBitsOfDenseOnes) {
  // The same numbers, once row-major and once as the transpose of the memory's matrix.
  constexpr std::int64_t rows = 11, columns = 6;
  ToyModel<float> dense({{rows, columns}});
  std::vector<float> value(rows * columns), gradient(rows * columns);
  const auto transpose = [&](const std::vector<float>& from, std::vector<float>& to) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        to[static_cast<std::size_t>(c * rows + r)] =
            from[static_cast<std::size_t>(r * columns + c)];
  };
  transpose(dense.tensors[0].value, value);
  transpose(dense.tensors[0].gradient, gradient);
  ParameterGroup group{.recipe = quick_recipe()};
  group.parameters.push_back({.name = "transposed",
                              .shape = {rows, columns},
                              .value = Tensor(value.data(), Type::float32, {1, rows}),
                              .gradient = Tensor(gradient.data(), Type::float32, {1, rows})});
  Optimizer a(*backend, *ranks, {dense.group(quick_recipe())});
  Optimizer b(*backend, *ranks, {group});

  for (int step = 0; step < 5; ++step) {
    a.step();
    b.step();
  }

  std::vector<float> expected(rows * columns);
  transpose(dense.tensors[0].value, expected);
  EXPECT_EQ(value, expected);
}

/// Address space of which only what is touched becomes memory.
class LazyFloats {
 public:
  explicit LazyFloats(std::size_t count)
      : bytes_(count * sizeof(float)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~LazyFloats() {
    if (is_mapped()) munmap(data_, bytes_);
  }
  LazyFloats(const LazyFloats&) = delete;
  LazyFloats& operator=(const LazyFloats&) = delete;

  bool is_mapped() const { return data_ != MAP_FAILED; }
  float* data() const { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

TEST_F(Types, TensorsThatReachBeyond32BitsOfElementsGiveTheBitsOfDenseOnes) {
  constexpr std::int64_t rows = 11, columns = 6, row = (std::int64_t{1} << 32) / 10 + 3;
  const LazyFloats value(rows * row), gradient(rows * row);
  if (!value.is_mapped() || !gradient.is_mapped())
    GTEST_SKIP() << "this process may not have 2 x 19 GB of address space";
  ToyModel<float> dense({{rows, columns}});
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto e = static_cast<std::size_t>(r * columns + c);
      value.data()[r * row + c] = dense.tensors[0].value[e];
      gradient.data()[r * row + c] = dense.tensors[0].gradient[e];
    }
  ParameterGroup group{.recipe = quick_recipe()};
  group.parameters.push_back({.name = dense.tensors[0].name,
                              .shape = {rows, columns},
                              .value = Tensor(value.data(), Type::float32, {row, 1}),
                              .gradient = Tensor(gradient.data(), Type::float32, {row, 1})});
  Optimizer a(*backend, *ranks, {dense.group(quick_recipe())});
  Optimizer b(*backend, *ranks, {group});

  for (int step = 0; step < 5; ++step) {
    a.step();
    b.step();
  }

  const auto& expected = dense.tensors[0].value;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      EXPECT_EQ(value.data()[r * row + c], expected[static_cast<std::size_t>(r * columns + c)]);
}

TEST_F(Types, EveryMixOfTypesTrains) {
  for (const Arithmetic arithmetic : {Arithmetic::float32, Arithmetic::float64})
    for (const Type value : {Type::float64, Type::float32, Type::bfloat16, Type::float16})
      for (const Type gradient : {Type::float64, Type::float32, Type::bfloat16, Type::float16}) {
        std::vector<std::uint64_t> values(63, 0), gradients(63, 0);
        // A gradient of 2^-14 or so in every type: any mantissa bit pattern below infinity.
        auto* const bytes = reinterpret_cast<std::uint16_t*>(gradients.data());
        const std::size_t width = size_of(gradient) / 2;
        for (std::size_t i = 0; i < 63; ++i)
          bytes[i * width + width - 1] = static_cast<std::uint16_t>(0x3800 + 8 * i);
        Recipe recipe = quick_recipe();
        recipe.arithmetic = arithmetic;
        ParameterGroup group{.recipe = recipe};
        group.parameters.push_back({.name = "w",
                                    .shape = {9, 7},
                                    .value = Tensor(values.data(), value),
                                    .gradient = Tensor(gradients.data(), gradient)});
        Optimizer optimizer(*backend, *ranks, {group});
        const auto before = values;

        for (int step = 0; step < 3; ++step) EXPECT_TRUE(optimizer.step().applied());

        EXPECT_NE(values, before) << name_of(value) << ' ' << name_of(gradient);
      }
}

TEST_F(Types, AFloat64GradientThatFloat32CannotHoldSkipsTheStep) {
  std::vector<float> value(6, 1);
  std::vector<double> gradient(6, 1);
  Optimizer optimizer(
      *backend, *ranks,
      {{{{.name = "w", .shape = {2, 3}, .value = value.data(), .gradient = gradient.data()}},
        {},
        quick_recipe()}});
  gradient[4] = 1e39;
  const StepResult skipped = optimizer.step();
  EXPECT_FALSE(skipped.applied());
  EXPECT_EQ(skipped.non_finite_gradient(), "w");
  EXPECT_EQ(value, std::vector<float>(6, 1));
  gradient[4] = 1;
  EXPECT_TRUE(optimizer.step().applied());
}

TEST(TheNormOfGradients, HasTheSameBitsInEitherArithmeticThoughSquaresLeaveFloat32) {
  for (const float size : {1e-30f, 1.0f, 1e30f}) {
    double norms[2] = {};
    for (const Arithmetic arithmetic : {Arithmetic::float32, Arithmetic::float64}) {
      ToyModel<float> model(awkward_shapes());
      for (auto& tensor : model.tensors)
        for (float& g : tensor.gradient) g *= size;
      const auto backend = cpu_backend({.threads = 1});
      const auto ranks = single_rank_communicator();
      Recipe recipe = quick_recipe();
      recipe.arithmetic = arithmetic;
      Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
      norms[arithmetic == Arithmetic::float64] = optimizer.step().gradient_norm();
    }
    EXPECT_EQ(norms[0], norms[1]);
    EXPECT_GT(norms[0], size);
    EXPECT_LT(norms[0], 1e3 * size);
  }
}

}  // namespace
}  // namespace shampoo::test
