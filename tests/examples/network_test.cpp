// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "examples/fashion/random.h"
#include "kernels/backend.h"

namespace fashion {
namespace {

template <typename Scalar>
struct Batch {
  std::vector<Scalar> images;
  std::vector<std::uint8_t> labels;
};

template <typename Scalar>
Batch<Scalar> random_batch(int count, std::uint64_t seed) {
  Random random(seed);
  Batch<Scalar> batch;
  for (int i = 0; i < count * image_size; ++i)
    batch.images.push_back(static_cast<Scalar>(4 * random.uniform() - 1));
  for (int i = 0; i < count; ++i)
    batch.labels.push_back(static_cast<std::uint8_t>(10 * random.uniform()));
  return batch;
}

template <typename Tensor>
std::int64_t elements(const Tensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t side : tensor.shape) count *= side;
  return count;
}

// Everything the network wrote into its gradients.
template <typename Scalar>
std::vector<Scalar> gradients(Network<Scalar>& network) {
  std::vector<Scalar> all;
  for (const auto& tensor : network.tensors())
    all.insert(all.end(), tensor.gradient, tensor.gradient + elements(tensor));
  return all;
}

class FashionNetwork : public ::testing::Test {
  // Sets BLAS to one thread per call, as the trainer does.
  std::unique_ptr<shampoo::Backend> backend_ = shampoo::cpu_backend();
};

TEST_F(FashionNetwork, HasTheParametersOfTheConvolutionalNetwork) {
  Workers workers(1);
  Network<float> network(workers, 1, 1);

  const auto tensors = network.tensors();

  ASSERT_EQ(tensors.size(), 8u);
  std::int64_t count = 0;
  for (const auto& tensor : tensors) count += elements(tensor);
  // 16 * 25 + 16, 32 * 16 * 25 + 32, 128 * 1568 + 128, 10 * 128 + 10
  EXPECT_EQ(count, 416 + 12832 + 200832 + 1290);
}

TEST_F(FashionNetwork, StartsUniformlyWithinTheInverseSquareRootOfTheFanIn) {
  Workers workers(1);
  Network<double> network(workers, 3, 1);
  const double fan_in[] = {25, 25, 400, 400, 1568, 1568, 128, 128};

  const auto tensors = network.tensors();

  for (int t = 0; t < 8; ++t) {
    const double bound = 1 / std::sqrt(fan_in[t]);
    const auto [least, most] =
        std::minmax_element(tensors[t].value, tensors[t].value + elements(tensors[t]));
    EXPECT_GE(*least, -bound) << tensors[t].name;
    EXPECT_LE(*most, bound) << tensors[t].name;
    EXPECT_LT(*least, -bound / 3) << tensors[t].name;
    EXPECT_GT(*most, bound / 3) << tensors[t].name;
  }
}

TEST_F(FashionNetwork, ItsGradientsAgreeWithCentralDifferences) {
  Workers workers(2);
  const auto batch = random_batch<double>(5, 11);
  Network<double> network(workers, 7, 5);
  const double count = static_cast<double>(batch.labels.size());
  const double loss = network.forward_backward(batch.images, batch.labels).loss / count;
  Random random(13);
  const auto difference = [&](double& value, double h) {
    const double before = value;
    value = before + h;
    const double above = network.evaluate(batch.images, batch.labels).loss / count;
    value = before - h;
    const double below = network.evaluate(batch.images, batch.labels).loss / count;
    value = before;
    return (above - below) / (2 * h);
  };

  for (const auto& tensor : network.tensors()) {
    const double scale =
        std::abs(*std::max_element(tensor.gradient, tensor.gradient + elements(tensor),
                                   [](double a, double b) { return std::abs(a) < std::abs(b); }));
    for (int i = 0; i < 12; ++i) {
      const auto at =
          static_cast<std::int64_t>(random.uniform() * static_cast<double>(elements(tensor)));
      // A step so small that no ReLU or pool is likely to switch on the way.
      constexpr double h = 1e-6;
      const double coarse = difference(tensor.value[at], h);
      const double fine = difference(tensor.value[at], h / 2);

      // The differences err by c h^2, so that fine is off by a third of |coarse - fine|; and by the
      // rounding of the loss, at most 64 units in the last place of sums this long, over h.
      const double tolerance =
          std::abs(coarse - fine) + 64 * std::numeric_limits<double>::epsilon() * loss / h;
      ASSERT_LE(tolerance, 1e-4 * scale) << tensor.name << "[" << at << "]";
      EXPECT_NEAR(tensor.gradient[at], fine, tolerance) << tensor.name << "[" << at << "]";
    }
  }
}

TEST_F(FashionNetwork, GivesTheSameBitsWithAnyNumberOfThreads) {
  // 1: three of four slices are empty; 7, 31: slices differ in size.
  for (const int count : {1, 7, 31}) {
    const auto batch = random_batch<float>(count, 5);
    Workers alone(1);
    Network<float> first(alone, 2, 31);
    const Score score = first.forward_backward(batch.images, batch.labels);
    const std::vector<float> expected = gradients(first);

    for (const int threads : {2, 3, 5}) {
      Workers workers(threads);
      Network<float> network(workers, 2, 31);
      const Score again = network.forward_backward(batch.images, batch.labels);
      const std::vector<float> ours = gradients(network);

      EXPECT_EQ(again.loss, score.loss) << threads << " threads, " << count << " images";
      EXPECT_EQ(again.correct, score.correct);
      EXPECT_EQ(std::memcmp(ours.data(), expected.data(), ours.size() * sizeof(float)), 0)
          << threads << " threads, " << count << " images";
    }
  }
}

TEST_F(FashionNetwork, GradientOfABatchIsTheMeanOverItsImages) {
  const int count = 6;
  const auto batch = random_batch<double>(count, 21);
  Workers workers(2);
  Network<double> network(workers, 4, count);
  const std::span images(batch.images);
  const std::span labels(batch.labels);

  std::vector<double> mean(parameter_count, 0.0);
  std::vector<double> magnitude(parameter_count, 0.0);
  for (int i = 0; i < count; ++i) {
    network.forward_backward(images.subspan(i * image_size, image_size), labels.subspan(i, 1));
    const std::vector<double> one = gradients(network);
    for (int k = 0; k < parameter_count; ++k) {
      mean[k] += one[k] / count;
      magnitude[k] += std::abs(one[k]) / count;
    }
  }
  network.forward_backward(images, labels);
  const std::vector<double> all = gradients(network);

  // Each gradient of a convolution is a sum over up to 784 pixels of every image, which the two
  // orders of adding up round differently; terms are at most of the size of the largest gradient.
  const double largest = *std::max_element(magnitude.begin(), magnitude.end());
  const double tolerance = count * image_size * std::numeric_limits<double>::epsilon() * largest;
  for (int k = 0; k < parameter_count; ++k) ASSERT_NEAR(all[k], mean[k], tolerance) << k;
}

TEST_F(FashionNetwork, EvaluatingLeavesTheGradientAlone) {
  const auto batch = random_batch<float>(3, 8);
  const auto other = random_batch<float>(2, 9);
  Workers workers(1);
  Network<float> network(workers, 1, 3);
  const Score trained = network.forward_backward(batch.images, batch.labels);
  const std::vector<float> before = gradients(network);

  const Score evaluated = network.evaluate(batch.images, batch.labels);
  network.evaluate(other.images, other.labels);

  EXPECT_EQ(evaluated.loss, trained.loss);
  EXPECT_EQ(gradients(network), before);
}

TEST_F(FashionNetwork, RefusesBatchesThatDoNotFit) {
  const auto batch = random_batch<float>(3, 8);
  Workers workers(1);
  Network<float> network(workers, 1, 2);
  const std::span images(batch.images);
  const std::span labels(batch.labels);

  EXPECT_THROW(network.evaluate(images, labels), std::invalid_argument);
  EXPECT_THROW(network.evaluate(images.first(0), labels.first(0)), std::invalid_argument);
  EXPECT_THROW(network.evaluate(images.first(image_size), labels.first(2)), std::invalid_argument);
}

TEST(FashionWorkers, RunEveryTaskOnceHoweverManyThereAre) {
  for (const int threads : {1, 2, 3}) {
    Workers workers(threads);
    for (const int count : {0, 1, 2, 7, 64}) {
      std::vector<int> calls(count, 0);
      workers.run(count, [&](int task) { ++calls[task]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1)) << threads << " threads";
    }
  }
}

TEST(FashionWorkers, NeedAtLeastOneThread) {
  EXPECT_THROW(Workers(0), std::invalid_argument);
  EXPECT_THROW(Workers(1025), std::invalid_argument);
}

}  // namespace
}  // namespace fashion
