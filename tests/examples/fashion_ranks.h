// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "examples/fashion/network/layout.h"
#include "examples/fashion/random.h"
#include "examples/fashion/training.h"
#include "kernels/backend.h"
#include "shampoo/shampoo.h"

namespace fashion {

/// Noise with a bright row whose height is the class.
inline LabelledImages made_up_images(int count, std::uint64_t seed) {
  Random random(seed);
  LabelledImages images;
  for (int i = 0; i < count; ++i) {
    images.labels.push_back(static_cast<std::uint8_t>(i % 10));
    for (int pixel = 0; pixel < image_size; ++pixel) {
      const bool bright = pixel / image_side / 2 == images.labels.back();
      images.pixels.push_back(static_cast<std::uint8_t>(60 * random.uniform() + 150 * bright));
    }
  }
  return images;
}

class FashionRanks : public ::testing::Test {
 protected:
  /// What rank 0 returns.
  template <typename Body>
  static auto on_ranks(int count, const Body& body) {
    decltype(body(std::declval<shampoo::Communicator&>())) result{};
    shampoo::run_ranks(count, [&](shampoo::Communicator& ranks) {
      auto own = body(ranks);
      if (ranks.rank() == 0) result = std::move(own);
    });
    return result;
  }

  /// Three epochs of two steps, preconditioned from the second step on.
  Outcome trained(int count, int threads = 1, std::uint64_t seed = 5) const {
    return trained(count, {&method("shampoo"), {.block = 512, .refresh = 2}, 1e-3, seed}, 3,
                   threads);
  }

  Outcome trained(int count, const Attempt& attempt, int epochs, int threads = 1) const {
    const Task task{dataset, normalisation, epochs, std::nullopt, threads};
    return on_ranks(count, [&](shampoo::Communicator& ranks) {
      Progress progress(nullptr);
      return train(ranks, task, attempt, progress);
    });
  }

  const Dataset dataset{made_up_images(520, 1), made_up_images(45, 2)};
  const Normalisation normalisation{dataset.train};
  // Sets BLAS to one thread per call, as the trainer does.
  const std::unique_ptr<shampoo::Backend> backend = shampoo::cpu_backend({.threads = 1});
};

}  // namespace fashion
