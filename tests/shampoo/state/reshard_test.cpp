// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "tests/shampoo/state/state_job.h"

namespace shampoo::test {
namespace {

TEST(ALoad, ConvertsBetweenFloat32AndFloat64ByOption) {
  const StateDict dict = trained_state();
  Trainee precise = small;
  precise.recipes[0].arithmetic = Arithmetic::float64;
  Alone wide(precise);
  wide.job.optimizer->load_state_dict(dict, {.convert_types = true});
  const StateDict converted = wide.job.optimizer->full_state_dict();
  const StateTensor& tensor = *converted.find("tensor2/factor/0/8.0");
  float narrow;
  double exact;
  std::memcpy(&narrow, dict.find(tensor.name())->bytes.data() + 4 * sizeof(float), sizeof(float));
  std::memcpy(&exact, tensor.bytes.data() + 4 * sizeof(double), sizeof(double));
  EXPECT_EQ(exact, static_cast<double>(narrow));
  EXPECT_NE(exact, 0);

  Alone back;
  back.job.optimizer->load_state_dict(converted, {.convert_types = true});
  EXPECT_EQ(back.job.optimizer->full_state_dict().tensors, dict.tensors);
}

TEST(AnotherBlockSize, CutsElementwiseStateAgainAndRefusesFactorsUnlessTheyRestart) {
  const StateDict dict = trained_state();
  for (const auto& [size, order] : {std::pair{5, 2}, {64, 2}, {64, 1}, {8, grouping::any_order}}) {
    Trainee trainee = small;
    trainee.recipes[0].blocking = {.size = size, .target_order = order};
    Alone alone(trainee);
    alone.job.train(0, 3);
    if (order == grouping::any_order) {  // the same boxes
      alone.job.optimizer->load_state_dict(dict);
      EXPECT_EQ(alone.job.optimizer->full_state_dict().tensors, dict.tensors);
      continue;
    }
    expect_says(alone.refusal(dict), {"factor/0", "cut differently", "OtherBlocks::restart"});
    const LoadReport report =
        alone.job.optimizer->load_state_dict(dict, {.other_blocks = OtherBlocks::restart});
    EXPECT_FALSE(report.restarted.empty());
    const StateDict after = alone.job.optimizer->full_state_dict();
    for (const StateTensor& tensor : after.tensors) {
      if (tensor.layout == StateLayout::elements) {
        EXPECT_EQ(tensor.bytes, dict.find(tensor.name())->bytes) << tensor.name();
      } else if (tensor.slot.starts_with("factor")) {
        EXPECT_EQ(std::ranges::count(tensor.bytes, std::byte{}),
                  static_cast<std::ptrdiff_t>(tensor.bytes.size()));
      }
    }
    EXPECT_EQ(alone.job.optimizer->steps("tensor0"), steps_before);
    alone.job.train(steps_before, steps_before + 4);  // it goes on
  }
}

TEST(AnotherBlockSize, RestartsNothingWithoutGrafting) {
  for (const Preconditioner& kind :
       {Preconditioner(RootInverse{}), Preconditioner(EigenvalueCorrected{})}) {
    Trainee whole = small;
    whole.recipes[0].preconditioner = kind;
    whole.recipes[0].grafting = std::nullopt;
    Trainee cut = whole;
    cut.recipes[0].blocking.size = 5;
    Alone from(whole), to(cut);
    from.job.train(0, 3);
    to.job.train(0, 3);
    const StateDict before = to.job.optimizer->full_state_dict();
    expect_says(error_of<std::invalid_argument>([&] {
                  to.job.optimizer->load_state_dict(from.job.optimizer->full_state_dict(),
                                                    {.other_blocks = OtherBlocks::restart});
                }),
                {"tensor0", "cut differently", "without grafting"});
    EXPECT_EQ(to.job.optimizer->full_state_dict(), before);
  }
}

TEST(AnotherBlockSize, FindsPartsThatWereCutInMoreThanOneDimension) {
  const Trainee fine{.shapes = {{9, 8}, {5, 6, 7}}, .recipes = {[] {
                                                      Recipe recipe = quick_recipe();
                                                      recipe.blocking = {.size = 4,
                                                                         .target_order = 3};
                                                      return recipe;
                                                    }()}};
  Trainee coarse = fine;
  coarse.recipes[0].blocking = {.size = 42, .target_order = 1};
  Alone from(fine), to(coarse), back(fine);
  from.job.train(0, 4);
  const LoadOptions restart{.other_blocks = OtherBlocks::restart};
  to.job.optimizer->load_state_dict(from.job.optimizer->state_dict(), restart);  // many parts
  back.job.optimizer->load_state_dict(to.job.optimizer->state_dict(), restart);
  const StateDict before = from.job.optimizer->full_state_dict(),
                  after = back.job.optimizer->full_state_dict();
  for (const char* const name : {"tensor0/filtered_gradient", "tensor1/grafting"})
    EXPECT_EQ(*after.find(name), *before.find(name));
}

TEST(Roots, ThatAreLeftOutAreRecomputedFromTheFactors) {
  const auto trainer = single_rank_communicator();
  Trainee trainee = small;
  trainee.recipes[0].refresh.staggered = false;
  for (const int steps : {1, 5, 6}) {  // roots are computed at steps 2, 3, 6
    Job<float> job(*trainer, trainee, {}), other(*trainer, trainee, {});
    job.train(0, steps);
    const StateDict dict = job.optimizer->state_dict({.derived = false});
    EXPECT_EQ(std::ranges::count_if(
                  dict.tensors, [](const StateTensor& t) { return t.slot.starts_with("root"); }),
              0);
    const LoadReport report = other.optimizer->load_state_dict(dict);
    const StateDict before = job.optimizer->state_dict(), after = other.optimizer->state_dict();
    if (steps != 5) {  // before the first refresh, or right after one
      EXPECT_EQ(report.recomputed.empty(), steps == 1);
      EXPECT_EQ(after, before);
      continue;
    }
    EXPECT_NE(after, before) << "of factors that have changed since";
    double largest = 0;
    for (const StateTensor& tensor : after.tensors) {
      if (!tensor.slot.starts_with("root")) continue;
      float number, old;
      std::memcpy(&number, tensor.bytes.data(), sizeof(float));
      std::memcpy(&old, before.find(tensor.name())->bytes.data(), sizeof(float));
      largest = std::max(largest, static_cast<double>(std::abs(number / old - 1)));
    }
    EXPECT_GT(largest, 0);
    EXPECT_LT(largest, 10);
  }
}

}  // namespace
}  // namespace shampoo::test
