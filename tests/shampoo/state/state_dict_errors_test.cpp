// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>

#include "tests/shampoo/state/state_job.h"

namespace shampoo::test {
namespace {

TEST(ALoad, NamesWhatIsMissingAndUnknownAndLeavesItOutByOption) {
  StateDict dict = trained_state();
  const StateDict whole = dict;
  std::erase_if(dict.tensors, [](const StateTensor& tensor) {
    return tensor.parameter == "tensor1" && tensor.slot != "grafting";
  });
  dict.parameters.push_back(dict.parameters[0]);
  dict.parameters.back().name = "stranger";
  dict.tensors.push_back(*whole.find("tensor0/grafting"));
  dict.tensors.back().slot = "weights";

  Alone alone;
  expect_says(alone.refusal(dict),
              {"4 missing", "'tensor1/factor/0/0'", "'tensor1/factor/0/8'",
               "'tensor1/filtered_gradient/0'", "2 unknown", "'stranger'", "'tensor0/weights'",
               "LoadOptions::strict = false", "CheckpointOptions{.state = {.strict = false}}"});
  const StateDict before = alone.job.optimizer->full_state_dict();
  const LoadReport report = alone.job.optimizer->load_state_dict(dict, {.strict = false});
  EXPECT_EQ(report.missing.size(), 4u);
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"stranger", "tensor0/weights"}));
  const StateDict after = alone.job.optimizer->full_state_dict();
  EXPECT_EQ(*after.find("tensor0/grafting"), *whole.find("tensor0/grafting"));
  EXPECT_EQ(*after.find("tensor1/grafting"), *whole.find("tensor1/grafting"));
  EXPECT_EQ(*after.find("tensor1/factor/0/8"), *before.find("tensor1/factor/0/8"));
}

TEST(ALoad, OfAPrefixLeavesTheOthersAsTheyAre) {
  const StateDict dict = trained_state();
  Alone alone;
  alone.job.train(0, 2);
  const StateDict before = alone.job.optimizer->full_state_dict();
  const LoadReport report = alone.job.optimizer->load_state_dict(dict, {.prefix = "tensor2"});
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  const StateDict after = alone.job.optimizer->full_state_dict();
  for (const StateTensor& tensor : after.tensors)
    EXPECT_EQ(tensor, *(tensor.parameter == "tensor2" ? dict : before).find(tensor.name()));
  EXPECT_EQ(alone.job.optimizer->steps("tensor1"), 2);
  EXPECT_EQ(alone.job.optimizer->steps("tensor2"), steps_before);
}

TEST(ALoad, RefusesAPrefixOfNoParameterUnlessItNeedNotBeComplete) {
  const StateDict dict = trained_state();
  Alone alone;
  const StateDict before = alone.job.optimizer->full_state_dict();
  expect_says(alone.refusal(dict, {.prefix = "tensr"}),
              {"LoadOptions::prefix 'tensr'", "strict = false"});
  alone.job.optimizer->load_state_dict(dict, {.strict = false, .prefix = "tensr"});
  EXPECT_EQ(alone.job.optimizer->full_state_dict().tensors, before.tensors);
}

TEST(ALoad, RefusesAnotherShapeTypeOrRecipeByName) {
  StateDict dict = trained_state();
  Alone alone;
  Alone other({.shapes = {{9, 8}, {14}, {20, 3}}});
  expect_says(other.refusal(dict), {"'tensor1'", "shape", "(14)", "(13)"});

  Trainee precise = small;
  precise.recipes[0].arithmetic = Arithmetic::float64;
  Alone in_float64(precise);
  expect_says(in_float64.refusal(dict), {"recipe.arithmetic", "float32", "float64"});
  expect_says(in_float64.refusal(dict, {.keep_recipes = true}),
              {"'tensor0/factor/0/0.0'", "type", "float64", "convert_types"});

  Trainee grafted = small;
  grafted.recipes[0].grafting = Adam{.drop_weighting = true};
  Alone differently(grafted);
  expect_says(differently.refusal(dict), {"'tensor0'", "recipe.grafting", "keep_recipes"});
  differently.job.optimizer->load_state_dict(dict, {.keep_recipes = true});
  EXPECT_EQ(*differently.job.optimizer->full_state_dict().find("tensor0/grafting"),
            *dict.find("tensor0/grafting"));
}

TEST(ALoad, SaysAllThatDoesNotFitAtOnce) {
  const StateDict dict = trained_state();
  Trainee trainee{.shapes = {{9, 8}, {14}, {20, 4}}};
  trainee.recipes[0].bias_correction = false;
  trainee.recipes[0].refresh.every = 9;
  trainee.recipes[0].preconditioner = RootInverse{.solver = Eigen{.relative_floor = 0.5}};
  Alone alone(trainee);
  const std::string message = alone.refusal(dict);
  expect_says(message, {"'tensor0': recipe.preconditioner.solver", "automatic", "eigen",
                        "\nparameter 'tensor0': recipe.refresh.every", "'tensor0': recipe.bias",
                        "\nparameter 'tensor1': shape", "\nparameter 'tensor2': shape"});
  EXPECT_EQ(message.find("relative_floor"), std::string::npos) << "of another kind";

  StateDict wrong = dict;
  tensor_of(wrong, "tensor0/factor/0/0.0").dimension = 1;
  tensor_of(wrong, "tensor2/root/1/0.0").layout = StateLayout::square;
  tensor_of(wrong, "tensor2/root/1/0.0").bytes.resize(9 * sizeof(float));
  Alone other;
  expect_says(other.refusal(wrong), {"'tensor0/factor/0/0.0': layout or dimension",
                                     "\n'tensor2/root/1/0.0': layout or dimension"});
}

TEST(ALoad, NamesTheOptionOfAKindThatDiffers) {
  Trainee trainee = small;
  trainee.recipes[0].preconditioner = RootInverse{.solver = Eigen{}};
  const StateDict dict = train_first<float>(trainee, {}).state;
  trainee.recipes[0].preconditioner = RootInverse{.solver = Eigen{.relative_floor = 0.5},
                                                  .exponents = {{.order = 1, .value = 0.5}}};
  Alone alone(trainee);
  expect_says(alone.refusal(dict),
              {"recipe.preconditioner.solver.relative_floor: the state dict has 0, the group 0.5",
               "recipe.preconditioner.exponents: the state dict has 0, the group 1"});
  alone.job.optimizer->load_state_dict(
      dict,
      {.keep_recipe_fields = {"preconditioner.exponents", "preconditioner.solver.relative_floor"}});

  StateDict older = dict;  // of a version without these options
  for (ParameterState& parameter : older.parameters)
    std::erase_if(parameter.recipe, [](const RecipeField& field) {
      return field.name.starts_with("preconditioner.solver.") || field.name == "filter";
    });
  trainee.recipes[0].preconditioner = RootInverse{.solver = Eigen{}};
  Alone(trainee).job.optimizer->load_state_dict(older);
  expect_says(alone.refusal(older, {.keep_recipe_fields = {"preconditioner.exponents"}}),
              {"relative_floor: the state dict has 0 (the default), the group 0.5"});
}

TEST(ALoad, TakesCountersOfABlockOfTheSameShapeOnly) {
  StateDict dict = trained_state();
  ASSERT_EQ(dict.parameters[0].merged_shape, (std::vector<std::int64_t>{9, 8}));
  dict.parameters[0].blocks[0].failures = 2;
  Alone alone;
  const auto failures = [&] {
    alone.job.optimizer->load_state_dict(dict);
    return alone.job.optimizer->state_dict().parameters[0].blocks[0].failures;
  };
  EXPECT_EQ(failures(), 2);
  dict.parameters[0].merged_shape = {8, 9};  // the same box of it holds other elements
  EXPECT_EQ(failures(), 0);
}

TEST(ALoad, RefusesWhatContradictsItself) {
  const StateDict good = trained_state();
  Alone alone;
  const auto refusal = [&](const std::function<void(StateDict&)>& spoil) {
    StateDict dict = good;
    spoil(dict);
    return alone.refusal(dict);
  };
  const std::string name = "tensor0/filtered_gradient";
  expect_says(refusal([&](StateDict& d) { tensor_of(d, name).bytes.pop_back(); }), {name, "bytes"});
  expect_says(refusal([&](StateDict& d) { tensor_of(d, name).box.offset[0] = 1; }), {name, "box"});
  expect_says(refusal([&](StateDict& d) { tensor_of(d, name).box.extent.pop_back(); }),
              {name, "box"});
  expect_says(refusal([&](StateDict& d) { tensor_of(d, name).shape[1] = -1; }), {"shape", "-1"});
  expect_says(refusal([&](StateDict& d) { tensor_of(d, name).type = Type{77}; }), {name, "type"});
  expect_says(refusal([&](StateDict& d) { tensor_of(d, name).layout = StateLayout{9}; }),
              {"layout"});
  expect_says(refusal([&](StateDict& d) { tensor_of(d, "tensor0/root/1/0.0").dimension = 2; }),
              {"tensor0/root/1/0.0", "dimension", "[0, 2)"});
  expect_says(refusal([&](StateDict& d) { d.tensors.push_back(*good.find(name)); }),
              {name, "twice"});
  expect_says(refusal([&](StateDict& d) { d.parameters.push_back(good.parameters[0]); }),
              {"tensor0", "twice"});
  expect_says(refusal([&](StateDict& d) { d.parameters.erase(d.parameters.begin()); }),
              {"there is no parameter 'tensor0'"});
  expect_says(refusal([&](StateDict& d) { d.parameters[1].steps = -1; }), {"tensor1", "steps"});
  for (const double sum :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    expect_says(refusal([&](StateDict& d) { d.parameters[1].averaging_weight_sum = sum; }),
                {"tensor1", "averaging_weight_sum: must be in [0, inf)"});
  expect_says(refusal([&](StateDict& d) { d.format = 2; }), {"format", "[1, 1]", "2"});
  expect_says(refusal([&](StateDict& d) { d.parameters[0].rates.beta1 = 7; }), {"beta1", "[0, 1)"});
  expect_says(refusal([&](StateDict& d) {  // the first rows again
                StateTensor part = *good.find("tensor2/grafting");
                part.box.extent = {2, 3};
                part.bytes.resize(6 * sizeof(float));
                d.tensors.push_back(part);
              }),
              {"tensor2/grafting", "another part"});
}

TEST(ALoad, RefusesCountersThatWouldOverflow) {
  const StateDict good = trained_state();
  Alone alone;
  const auto refuses = [&](const std::function<void(StateDict&)>& spoil, const char* says) {
    StateDict dict = good;
    spoil(dict);
    expect_says(alone.refusal(dict), {says});
  };
  constexpr std::int64_t steps = (std::int64_t{1} << 53) + 1;
  constexpr int in_a_row = std::numeric_limits<std::int32_t>::max();
  refuses([](StateDict& d) { d.parameters[1].steps = steps; },
          "parameter 'tensor1': steps: must be in [0, 9007199254740992], got 9007199254740993");
  refuses([](StateDict& d) { d.parameters[1].blocks[0].failures = in_a_row; },
          "parameter 'tensor1': blocks.failures: must be in [0, 2147483646], got 2147483647");
  refuses([](StateDict& d) { d.progress.attempts = steps; },
          "progress.attempts: must be in [0, 9007199254740992], got 9007199254740993");
  refuses([](StateDict& d) { d.progress.taken = steps; },
          "progress.taken: must be in [0, 9007199254740992], got 9007199254740993");
  refuses([](StateDict& d) { d.progress.skipped_in_a_row = in_a_row; },
          "progress.skipped_in_a_row: must be in [0, 2147483646], got 2147483647");
  refuses([](StateDict& d) { d.progress.good_steps = steps; },
          "progress.good_steps: must be in [0, 2147483646], got 9007199254740993");

  StateDict most = good;
  most.parameters[1].steps = most.progress.attempts = most.progress.taken = steps - 1;
  most.progress.good_steps = in_a_row - 1;
  alone.job.optimizer->load_state_dict(most);
  EXPECT_EQ(alone.job.optimizer->steps("tensor1"), steps - 1);
}

TEST(Rates, ThatWereSavedUnequalInOneGroupAreRefusedUnlessItsOwnAreKept) {
  StateDict dict = trained_state();
  Alone alone;
  const Rates own = alone.job.optimizer->group(0).rates;
  dict.parameters[2].rates.beta2 = 0.75;
  expect_says(alone.refusal(dict), {"'tensor2'", "'tensor0'", "group 0", "(beta2)", "keep_rates"});

  alone.job.optimizer->load_state_dict(dict, {.keep_rates = true});
  EXPECT_EQ(alone.job.optimizer->group(0).rates, own);
  Alone split(small, {.groups = 3});
  Group& group = split.job.optimizer->group(2);
  split.job.optimizer->load_state_dict(dict);
  EXPECT_EQ(group.rates.beta2, 0.75) << "the group stays where it is";
}

TEST(Arithmetic, ThatDiffersIsReported) {
  StateDict dict = trained_state();
  Alone alone;
  EXPECT_EQ(alone.job.optimizer->load_state_dict(dict).other_arithmetic, "");
  dict.arithmetic = "abacus";
  EXPECT_EQ(alone.job.optimizer->load_state_dict(dict).other_arithmetic, "abacus");
}

TEST(ParameterNames, ThatCouldBeStateOfAnotherAreRefused) {
  ToyModel<float> model({{3, 2}, {4}});
  const auto backend = cpu_backend({.threads = 1});
  const auto alone = single_rank_communicator();
  const auto message = [&](const std::string& first, const std::string& second) {
    ParameterGroup group = model.group(quick_recipe());
    group.parameters[0].name = first;
    group.parameters[1].name = second;
    return error_of<std::invalid_argument>([&] { Optimizer(*backend, *alone, {group}); });
  };
  expect_says(message("a", "a/factor"), {"'a/factor'", "'a/factor/0/0.0'", "'a'"});
  expect_says(message("a/grafting", "a"), {"'a/grafting'"});
  expect_says(message("a", "a/root/0"), {"'a/root/0'"});
  EXPECT_EQ(message("a", "a/root/0/0"), "");
  EXPECT_EQ(message("a", "a/b"), "");
  EXPECT_EQ(message("a", "a/factory"), "");
  EXPECT_EQ(message("a/b", "a/factor"), "");
}

}  // namespace
}  // namespace shampoo::test
