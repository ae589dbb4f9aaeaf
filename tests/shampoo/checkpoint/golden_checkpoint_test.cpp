// SPDX-License-Identifier: Apache-2.0
// Checkpoints that released versions wrote. They stay as they are, whatever is changed.
#include "tests/shampoo/checkpoint/golden_checkpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "shampoo/checkpoint/format/manifest.h"

namespace shampoo::test {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path golden = SHAMPOO_GOLDEN_CHECKPOINTS;

/// By the version of the format.
class GoldenCheckpoints : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const auto folder = golden / ("format-" + std::to_string(GetParam()));
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      std::filesystem::copy(entry.path(), folder_ / entry.path().filename());
  }

  /// Replaces the manifest, with a checksum that is right.
  void edit(const std::function<void(Json&)>& change) {
    const auto path = folder_ / checkpoint::manifest_name;
    Json json = Json::parse(content_of(path));
    json.erase("checksum");
    change(json);
    std::string body = json.dump();
    body.pop_back();
    std::filesystem::remove(path);
    std::ofstream(path) << body << checkpoint::checksum_member(body);
  }

  void expect_to_load() {
    for (const int ranks : {golden_ranks, 1, 3})
      run_ranks(ranks, [&](Communicator& communicator) {
        const int rank = communicator.rank();
        Job<float> job(communicator, golden_trainee(),
                       {.ranks = ranks, .rates = {.learning_rate = 0.5, .momentum = 0.1}});
        GoldenUserState user(rank);
        UserState asked = user.of_rank(rank);
        const UserState saved = asked;
        const GoldenUserState wanted = user;
        std::ranges::fill(user.table, 0.0F);
        std::ranges::fill(user.generator, std::uint8_t{0});
        asked.values = {{"epoch", std::int64_t{}}, {"loss", 0.0}, {"phase", std::string()}};
        asked.rank_values = {{"position", std::int64_t{}}};
        const bool same = ranks == golden_ranks;

        const LoadedCheckpoint loaded =
            load(*job.optimizer, folder_, asked,
                 {.other_ranks = same ? OtherRanks::refuse : OtherRanks::keep});

        EXPECT_EQ(loaded.step, golden_steps + 1);
        EXPECT_TRUE(loaded.state.missing.empty() && loaded.state.unexpected.empty());
        EXPECT_TRUE(loaded.state.recomputed.empty());
        EXPECT_EQ(user.table, wanted.table);
        EXPECT_EQ(asked.values, saved.values);
        if (same) {
          EXPECT_EQ(user.generator, wanted.generator);
          EXPECT_EQ(asked.rank_values, saved.rank_values);
        }
        const StateDict state = job.optimizer->full_state_dict();
        EXPECT_EQ(state, golden_state(state));
        EXPECT_GT(state.tensors.size(), 50U);
        for (const ParameterState& parameter : state.parameters) {
          EXPECT_EQ(parameter.rates.learning_rate, 1e-2);
          EXPECT_EQ(parameter.rates.dampening, 0.0);
        }
        job.train(0, 1);
      });
  }

  TemporaryFolder root_;
  const std::filesystem::path folder_ = [&] {
    const auto folder = root_.path() / "step-8";
    std::filesystem::create_directory(folder);
    return folder;
  }();
};

TEST_P(GoldenCheckpoints, AreLoadedByAnyNumberOfRanks) { expect_to_load(); }

TEST_P(GoldenCheckpoints, ThatLackARateAndARecipeFieldHaveTheirDefaults) {
  edit([](Json& json) {
    for (Json& rates : json.at("rates")) ASSERT_EQ(rates.erase("dampening"), 1U);
    for (Json& recipe : json.at("recipes")) {
      ASSERT_EQ(recipe.erase("maximize"), 1U);
      ASSERT_EQ(recipe.erase("preconditioner.drop_weighting"), 1U);
    }
  });
  expect_to_load();
}

TEST_P(GoldenCheckpoints, WithFieldsOfALaterVersionAreLoaded) {
  edit([](Json& json) {
    json["later"] = {{"a", "x"}, {"more", {1, 2, 3}}};
    for (const char* list : {"files", "slots", "rates", "parameters", "user_tensors"})
      for (Json& row : json.at(list)) row["later"] = {{"a", {0.5}}};
    for (Json& recipe : json.at("recipes")) recipe["preconditioner.later"] = "1";
  });
  expect_to_load();
}

TEST_P(GoldenCheckpoints, WithAnotherRecipeAreRefusedFieldByField) {
  edit([](Json& json) {
    for (Json& recipe : json.at("recipes")) {
      recipe["maximize"] = "true";
      recipe["refresh.every"] = "77";
    }
  });
  const auto communicator = single_rank_communicator();
  Job<float> job(*communicator, golden_trainee(), {});
  const auto refusal = [&](const LoadOptions& options) {
    return error_of<std::invalid_argument>(
        [&] { load(*job.optimizer, folder_, {.state = options}); });
  };
  const std::string all = refusal({});
  for (int t = 0; t < 6; ++t)
    expect_says(all, {"parameter 'tensor" + std::to_string(t) + "': recipe.maximize"});
  expect_says(all, {"recipe.refresh.every: the state dict has 77, the group 3"});
  const std::string some = refusal({.keep_recipe_fields = {"refresh"}});
  expect_says(some, {"recipe.maximize"});
  EXPECT_EQ(some.find("refresh"), std::string::npos) << some;
  EXPECT_EQ(refusal({.keep_recipe_fields = {"refresh.every", "maximize"}}), "");
  EXPECT_EQ(refusal({.keep_recipes = true}), "");
}

INSTANTIATE_TEST_SUITE_P(OfFormat, GoldenCheckpoints, testing::Values(1),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace shampoo::test
