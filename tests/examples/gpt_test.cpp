// SPDX-License-Identifier: Apache-2.0
// The model of examples/gpt, and its training on ranks that are threads of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "examples/fashion/random.h"
#include "examples/gpt/layers.h"
#include "examples/gpt/layout.h"
#include "examples/gpt/method.h"
#include "examples/gpt/replica.h"
#include "examples/gpt/text.h"
#include "examples/gpt/training.h"
#include "examples/gpt/transformer.h"
#include "shampoo/shampoo.h"
#include "tests/support/temporary_folder.h"

namespace gpt {
namespace {

/// Sentences of a few words.
std::string made_up_text() {
  constexpr const char* words[] = {"and", "the", "light", "was", "upon", "deep", "water", "said"};
  fashion::Random random(3);
  std::string text;
  while (text.size() < 300000) {
    text += words[static_cast<int>(8 * random.uniform())];
    text += random.uniform() < 0.1 ? ".\n" : " ";
  }
  return text;
}

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

class Gpt : public ::testing::Test {
 protected:
  static Outcome train_on(int count, const Task& task, const std::string& key = "shampoo",
                          std::int64_t steps = 12) {
    const Attempt attempt{.method = &method(key),
                          .settings = {.block = 16, .refresh = 3, .warm_up = 3, .steps = steps}};
    Outcome outcome;
    std::vector<std::uint64_t> sums(count);
    shampoo::run_ranks(count, [&](shampoo::Communicator& ranks) {
      const auto own = shampoo::cpu_backend({.threads = 1});
      Outcome mine = train(*own, ranks, text(), task, attempt);
      sums[ranks.rank()] = mine.checksum;
      if (ranks.rank() == 0) outcome = std::move(mine);
    });
    for (const std::uint64_t sum : sums) EXPECT_EQ(sum, outcome.checksum) << "of a rank";
    return outcome;
  }

  static const Text& text() {
    static const Text made_up(made_up_text());
    return made_up;
  }

  const Task small{.size = {.layers = 2, .width = 12, .heads = 3, .context = 10},
                   .batch = 7,
                   .validation = 9,
                   .evaluate_every = 4};
  // Sets BLAS to one thread per call, as the trainer does.
  const std::unique_ptr<shampoo::Backend> backend = shampoo::cpu_backend({.threads = 1});
};

TEST_F(Gpt, ItsGradientsAgreeWithCentralDifferences) {
  const Layout layout({.layers = 2, .width = 6, .heads = 2, .context = 5});
  constexpr int sequences = 3, letters = 8;
  fashion::Random random(7);
  Bytes windows(sequences * 6);
  for (auto& byte : windows) byte = static_cast<std::uint8_t>(letters * random.uniform());
  std::vector<double> values(layout.elements()), gradients(layout.elements(), NAN);
  for (double& value : values) value = random.uniform() - 0.5;
  Transformer<double> model(layout, sequences);
  const auto loss = [&] {
    model.run(values.data(), windows);
    return model.cross_entropy();
  };
  const double at_values = loss();
  model.differentiate(values.data(), 1, gradients.data());

  const auto difference = [&](double& value, double h) {
    const double before = value;
    value = before + h;
    const double above = loss();
    value = before - h;
    const double below = loss();
    value = before;
    return (above - below) / (2 * h);
  };
  layout.for_each_tensor([&](const std::string& name, const auto& shape, std::int64_t first) {
    const std::span<const double> gradient(&gradients[first], elements(shape));
    const double scale = std::abs(*std::ranges::max_element(
        gradient, [](double a, double b) { return std::abs(a) < std::abs(b); }));
    ASSERT_GT(scale, 0) << name;
    // Of the embedding, rows of bytes that are there.
    const auto limit = name == "wte.weight" ? letters * shape[1] : elements(shape);
    for (int i = 0; i < 12; ++i) {
      const auto at = static_cast<std::int64_t>(random.uniform() * static_cast<double>(limit));
      constexpr double h = 1e-4;
      const double coarse = difference(values[first + at], h);
      const double fine = difference(values[first + at], h / 2);
      // The differences err by c h^2, so that fine is off by a third of |coarse - fine|; and by the
      // rounding of the loss, at most 64 units in the last place of sums this short, over h.
      const double tolerance =
          std::abs(coarse - fine) + 64 * std::numeric_limits<double>::epsilon() * at_values / h;
      ASSERT_LE(tolerance, 1e-4 * scale) << name << "[" << at << "]";
      EXPECT_NEAR(gradient[at], fine, tolerance) << name << "[" << at << "]";
    }
  });
}

TEST_F(Gpt, ItsExponentialIsRightToThreeUnits) {
  for (float x = -86; x < 87; x += 0.0625f + 0.001f) {
    const double right = std::exp(static_cast<double>(x));
    EXPECT_NEAR(exponential(x), right, 3 * std::numeric_limits<float>::epsilon() * right) << x;
  }
  EXPECT_TRUE(std::isnan(exponential(NAN)));
  EXPECT_TRUE(std::isnan(exponential(INFINITY)));
}

TEST_F(Gpt, LaysTensorsOfLayersBackToBackAndCoversTheSlab) {
  const Layout layout({.layers = 3, .width = 8, .heads = 2, .context = 5});
  std::int64_t next = 0;
  std::set<std::string> names;
  layout.for_each_tensor([&](const std::string& name, const auto& shape, std::int64_t first) {
    EXPECT_EQ(first, next) << name;
    next += elements(shape);
    EXPECT_TRUE(names.insert(name).second) << name;
  });
  EXPECT_EQ(next, layout.elements());
  EXPECT_EQ(names.size(), 5u + 3 * 12);
  // A layer's stride in a stack is its own {3 C, C}.
  EXPECT_EQ(layout.at(Part::c_attn_weight, 2) - layout.at(Part::c_attn_weight, 1), 3 * 8 * 8);
  EXPECT_THROW(Layout({.width = 7, .heads = 2}), std::invalid_argument);
}

TEST_F(Gpt, HasFourGroupsAndOneVirtualGroupPerRecipe) {
  const Layout layout(small.size);
  std::vector<float> memory(2 * layout.elements());
  for (const Method& each : methods()) {
    std::vector<shampoo::Parameter> parameters;
    layout.for_each_tensor([&](const std::string& name, const auto& shape, std::int64_t first) {
      parameters.push_back({name, shape, {}, &memory[first], &memory[layout.elements() + first]});
    });
    const auto groups =
        parameter_groups(each, {.rate = 1e-2, .embedding_rate = 3e-3}, std::move(parameters));

    ASSERT_EQ(groups.size(), 4u) << each.key;
    std::set<std::string> recipes;
    for (const auto& group : groups) {
      recipes.insert(shampoo::canonical_text(group.recipe));
      const bool matrices = group.label == "matrices", vectors = group.label == "vectors";
      EXPECT_EQ(group.rates.weight_decay, vectors ? 0 : 0.1) << group.label;
      EXPECT_EQ(group.rates.learning_rate, matrices ? 1e-2 : 3e-3) << group.label;
      EXPECT_EQ(group.parameters.size(), matrices                      ? 8u
                                         : vectors                     ? 18u
                                         : group.label == "head"       ? 1u
                                         : group.label == "embeddings" ? 2u
                                                                       : 0u)
          << group.label;
    }
    EXPECT_EQ(recipes.size(), each.key == "adamw" ? 1u : 2u) << each.key;
  }
}

TEST_F(Gpt, KeepsWhatItValidatesWithOutOfTheTraining) {
  const std::string all = made_up_text();
  const Text split(all);
  EXPECT_EQ(split.train().size() + split.held_out().size(), all.size());
  EXPECT_TRUE(std::equal(split.held_out().begin(), split.held_out().begin() + 4096,
                         all.begin() + 15 * 4096));
  EXPECT_EQ(split.batch(1, 5, 3, 11), split.batch(1, 5, 3, 11));
  EXPECT_NE(split.batch(1, 5, 3, 11), split.batch(1, 6, 3, 11));
  EXPECT_EQ(split.validation(9, 11).size(), 99u);
  const shampoo::test::TemporaryFolder folder;
  shampoo::test::write_file(folder.path() / "a", all.substr(0, 1000));
  shampoo::test::write_file(folder.path() / "b", all.substr(1000));
  EXPECT_EQ(read_text(folder.path()).train(), split.train());
  EXPECT_THROW(read_text(folder.path() / "a"), std::runtime_error) << "too short";
}

TEST_F(Gpt, ContinuesATextInTheSameWayForTheSameSeed) {
  const Layout layout(small.size);
  std::vector<float> values;
  initialise(layout, 1, values);
  Replica replica(layout, 1, 4);
  const Bytes begin = text().validation(1, 10);

  const Bytes first = replica.continuation(values, begin, 30, 5);

  EXPECT_EQ(first.size(), 30u);
  EXPECT_EQ(replica.continuation(values, begin, 30, 5), first);
  EXPECT_NE(replica.continuation(values, begin, 30, 6), first);
}

TEST_F(Gpt, TrainsByEveryMethod) {
  for (const Method& each : methods()) {
    const Outcome outcome = train_on(2, small, each.key, 40);
    EXPECT_LT(outcome.readings.back().loss, 0.9 * outcome.readings.front().loss) << each.key;
    EXPECT_EQ(outcome.readings.back().step, 40);
  }
}

TEST_F(Gpt, GivesEveryRankTheSameBitsWithAnyNumberOfThreads) {
  for (const bool bfloat16 : {false, true}) {
    Task task = small;
    task.bfloat16 = bfloat16;
    const Outcome alone = train_on(1, task);
    for (const int count : {2, 3}) {
      task.threads = 1;
      const Outcome together = train_on(count, task);
      // Gradients are added up in another order: of float32, losses stay within 1e-3 in 12 steps;
      // of bfloat16, whose unit is 2^-8, within 2^-5.
      EXPECT_NEAR(together.readings.back().loss, alone.readings.back().loss,
                  bfloat16 ? 0x1p-5 : 1e-3);
      task.threads = 3;
      EXPECT_EQ(train_on(count, task).checksum, together.checksum) << count << " ranks";
    }
    task.replicate = true;
    EXPECT_EQ(train_on(3, task).checksum, alone.checksum);
  }
}

TEST_F(Gpt, GoesOnFromACheckpointWithTheSameBits) {
  for (const bool bfloat16 : {false, true})
    for (const int count : {1, 2}) {
      const shampoo::test::TemporaryFolder folder;
      Task task = small;
      task.bfloat16 = bfloat16;
      const Outcome undisturbed = train_on(count, task);
      task.checkpoints = folder.path();
      task.checkpoint_every = 5;
      task.until = 7;
      train_on(count, task);
      task.until = 0;

      const Outcome resumed = train_on(count, task);

      EXPECT_EQ(resumed.readings.front().step, 7);
      EXPECT_EQ(resumed.checksum, undisturbed.checksum) << count << " ranks";
      EXPECT_THROW(train_on(count, task, "shampoo", 13), std::invalid_argument) << "other steps";
    }
}

TEST_F(Gpt, RefusesACheckpointOfARunWithAnotherOption) {
  const shampoo::test::TemporaryFolder folder;
  const auto complaint = [&](const auto& change) -> std::string {
    Task task = small;
    task.checkpoints = folder.path();
    task.until = 1;
    Attempt attempt{.method = &method("adamw"), .settings = {.warm_up = 3, .steps = 4}};
    std::string all = made_up_text();
    change(task, attempt, all);
    try {
      train(*backend, *shampoo::single_rank_communicator(), Text(all), task, attempt);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const auto differs = [&](const std::string& what, const auto& change) {
    const std::string found = complaint(change);
    EXPECT_TRUE(found.starts_with("--checkpoint: ") && found.ends_with(" of a run with " + what))
        << found;
  };
  ASSERT_EQ(complaint([](Task&, Attempt&, std::string&) {}), "");
  differs("--batch 7, not 6", [](Task& task, Attempt&, auto&) { task.batch = 6; });
  differs("--heads 3, not 4", [](Task& task, Attempt&, auto&) { task.size.heads = 4; });
  differs("--layers 2, not 1", [](Task& task, Attempt&, auto&) { task.size.layers = 1; });
  differs("--clip 1, not 0", [](Task& task, Attempt&, auto&) { task.clip = 0; });
  differs("--seed 1, not 2", [](Task&, Attempt& attempt, auto&) { attempt.seed = 2; });
  differs("--schedule cosine, not wsd",
          [](Task&, Attempt& attempt, auto&) { attempt.settings.schedule = "wsd"; });
  differs("--weight-decay 0.1, not 0.5",
          [](Task&, Attempt& attempt, auto&) { attempt.settings.weight_decay = 0.5; });
  differs("--warm-up 3, not 2",
          [](Task&, Attempt& attempt, auto&) { attempt.settings.warm_up = 2; });
  differs("--embedding-rate unset, not 0.25",
          [](Task&, Attempt& attempt, auto&) { attempt.settings.embedding_rate = 0.25; });
  EXPECT_NE(complaint([](Task&, Attempt&, std::string& text) { text[0] ^= 1; }).find(" --text "),
            std::string::npos);
  EXPECT_EQ(complaint([](Task& task, Attempt&, auto&) {
              task.until = 2;
              task.evaluate_every = 1;
              task.threads = 2;
            }),
            "");
}

}  // namespace
}  // namespace gpt
