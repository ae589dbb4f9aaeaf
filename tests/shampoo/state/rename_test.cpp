// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/shampoo/state/state_job.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {
namespace {

/// tensor0 <-> tensor2, which have other shapes.
Trainee reordered() {
  Trainee trainee = small;
  std::swap(trainee.shapes[0], trainee.shapes[2]);
  return trainee;
}

LoadOptions swapping() {
  return {.rename = [](const std::string& saved) -> std::string {
    if (saved == "tensor0") return "tensor2";
    return saved == "tensor2" ? "tensor0" : saved;
  }};
}

/// The state dict under its own names again.
StateDict swapped_back(StateDict dict) {
  for (ParameterState& parameter : dict.parameters)
    parameter.name = swapping().rename(parameter.name);
  for (StateTensor& tensor : dict.tensors) tensor.parameter = swapping().rename(tensor.parameter);
  std::ranges::sort(dict.parameters, {}, &ParameterState::name);
  std::ranges::sort(dict.tensors, {}, &StateTensor::name);
  return dict;
}

TEST(RenamedParameters, TakeTheStateOfTheirNamesInAStateDict) {
  const StateDict saved = trained_state();
  for (const int ranks : {1, 3})
    run_on_cpu(ranks, [&](Communicator& communicator, kernels::Backend& backend) {
      Job<float> job(communicator, reordered(), {.ranks = ranks}, {}, &backend);
      EXPECT_THROW(job.optimizer->load_state_dict(saved), std::invalid_argument);
      job.optimizer->load_state_dict(saved, swapping());
      EXPECT_EQ(swapped_back(job.optimizer->full_state_dict()), saved);
    });
}

TEST(RenamedParameters, TakeTheStateOfTheirNamesInACheckpoint) {
  const TemporaryFolder folder;
  const StateDict saved = trained_state();
  run_on_cpu(3, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, small, {.ranks = 3}, {}, &backend);
    job.optimizer->load_state_dict(saved);
    save(*job.optimizer, folder.path());
  });
  for (const int ranks : {1, 2})
    run_on_cpu(ranks, [&](Communicator& communicator, kernels::Backend& backend) {
      Job<float> job(communicator, reordered(), {.ranks = ranks}, {}, &backend);
      EXPECT_THROW(load(*job.optimizer, folder.path()), std::invalid_argument);
      load(*job.optimizer, folder.path(), {.state = swapping()});
      EXPECT_EQ(swapped_back(job.optimizer->full_state_dict()), saved);
    });
}

TEST(RenamedParameters, AreStrangersOrMissingWhereTheNameFitsNone) {
  const LoadOptions other{.rename = [](const std::string& saved) { return "old " + saved; }};
  Alone alone;
  expect_says(alone.refusal(trained_state(), other), {"3 missing: 'tensor0', 'tensor1', 'tensor2'",
                                                      "3 unknown to the optimizer: 'old tensor0'"});
  const LoadOptions same{.rename = [](const std::string&) { return std::string("tensor0"); }};
  expect_says(alone.refusal(trained_state(), same), {"parameter 'tensor0': is there twice"});
}

TEST(ALoad, SaysWhatDiffersAndWhatIsMissingInOneMessage) {
  StateDict dict = trained_state();
  dict.parameters[0].shape = {8, 9};
  dict.parameters[1].rates.learning_rate = -1;
  dict.parameters[2].name = "stranger";
  for (StateTensor& tensor : dict.tensors)
    if (tensor.parameter == "tensor2") tensor.parameter = "stranger";
  Trainee precise = small;
  precise.recipes[0].arithmetic = Arithmetic::float64;
  Alone alone(precise);
  const std::string message = alone.refusal(dict);
  expect_says(message, {"'tensor0': shape: must be (9, 8), got (8, 9)",
                        "'tensor1': recipe.arithmetic", "learning_rate must be in [0, inf), got -1",
                        "1 missing: 'tensor2'", "1 unknown to the optimizer: 'stranger'"});
}

}  // namespace
}  // namespace shampoo::test
