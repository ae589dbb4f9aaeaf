// SPDX-License-Identifier: Apache-2.0
// A trainer in the way of llm.c: slabs, a table of what lies in them, routes, schedules.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shampoo/c/c_handles.h"
#include "shampoo/shampoo.h"

namespace shampoo::test {
namespace {

constexpr shampoo_entry slab_entries[] = {{"wte.weight", 2, {3, 4}, 0},
                                          {"h.%d.w", 2, {4, 5}, 3},
                                          {"h.%d.row", 2, {1, 5}, 2},
                                          {"scale", 0, {}, 0}};
constexpr std::int64_t slab_elements = 12 + 3 * 20 + 2 * 5 + 1;

double half(std::int64_t step, void* context) {
  ++*static_cast<int*>(context);
  return step == 0 ? 1 : 0.5;
}

/// Values in bfloat16, gradients in float32, which are 1.
class CTrainer : public testing::Test {
 protected:
  CTrainer() { EXPECT_EQ(shampoo_setup_create(&setup_), SHAMPOO_OK); }
  ~CTrainer() override {
    shampoo_optimizer_free(optimizer_);
    shampoo_setup_free(setup_);
  }
  shampoo_status add_slab(std::int64_t* covered = nullptr) {
    return shampoo_add_slab(setup_, &slab_, slab_entries, 4, covered);
  }
  void create() {
    ASSERT_EQ(shampoo_optimizer_create(nullptr, nullptr, setup_, &optimizer_), SHAMPOO_OK)
        << error();
  }
  void expect_error(shampoo_status status, const std::string& message) {
    EXPECT_EQ(status, SHAMPOO_INVALID_ARGUMENT) << message;
    EXPECT_EQ(error(), message);
  }
  static std::string error() { return shampoo_last_error(); }

  void for_each_parameter(const std::function<void(const Parameter&)>& visit) {
    for (int g = 0; g < shampoo_group_count(optimizer_); ++g)
      for (const Parameter& parameter : optimizer_->optimizer.group(g).parameters())
        visit(parameter);
  }
  /// Those of slab_ lie where the values do.
  void expect_gradients_at(const float* gradients) {
    for_each_parameter([&](const Parameter& parameter) {
      if (parameter.name.starts_with("other")) return;
      const auto place = static_cast<const std::uint16_t*>(parameter.value.data) - values_.data();
      EXPECT_EQ(parameter.gradient.data, gradients ? gradients + place : nullptr) << parameter.name;
    });
  }

  std::vector<std::uint16_t> values_ = std::vector<std::uint16_t>(slab_elements);
  std::vector<float> gradients_ = std::vector<float>(slab_elements, 1.0f);
  shampoo_slab slab_ = {values_.data(), SHAMPOO_BFLOAT16, nullptr, SHAMPOO_FLOAT32};
  shampoo_setup* setup_ = nullptr;
  shampoo_optimizer* optimizer_ = nullptr;
};

TEST_F(CTrainer, ATableOfASlabIsAllTensorsWhereTheyLie) {
  std::int64_t covered = 0;
  ASSERT_EQ(add_slab(&covered), SHAMPOO_OK) << error();
  EXPECT_EQ(covered, slab_elements);
  ASSERT_EQ(shampoo_route(setup_, nullptr), SHAMPOO_OK) << error();
  create();

  std::vector<std::string> places(slab_elements);
  for_each_parameter([&](const Parameter& parameter) {
    places[static_cast<const std::uint16_t*>(parameter.value.data) - values_.data()] =
        parameter.name + " of " + std::to_string(grouping::numel(parameter.shape));
    EXPECT_EQ(parameter.value.type, Type::bfloat16);
    EXPECT_EQ(parameter.gradient.type, Type::float32);
  });
  std::erase(places, "");
  EXPECT_EQ(places, (std::vector<std::string>{"wte.weight of 12", "h.0.w of 20", "h.1.w of 20",
                                              "h.2.w of 20", "h.0.row of 5", "h.1.row of 5",
                                              "scale of 1"}));
}

TEST_F(CTrainer, ARecipeIsRoutedAsInALanguageModel) {
  int calls = 0;
  ASSERT_EQ(shampoo_setup_rate(setup_, "learning_rate", 0.25), SHAMPOO_OK);
  ASSERT_EQ(shampoo_setup_rate(setup_, "weight_decay", 0.125), SHAMPOO_OK);
  ASSERT_EQ(shampoo_setup_schedule(setup_, "learning_rate", half, &calls), SHAMPOO_OK);
  ASSERT_EQ(add_slab(), SHAMPOO_OK);
  ASSERT_EQ(shampoo_route(setup_, "soap"), SHAMPOO_OK) << error();
  ASSERT_EQ(shampoo_begin_group(setup_, "last", "adamw"), SHAMPOO_OK);
  ASSERT_EQ(shampoo_setup_warm_up_stable_decay(setup_, "weight_decay", 1, 1, 1), SHAMPOO_OK);
  ASSERT_EQ(shampoo_setup_rate(setup_, "weight_decay", 1), SHAMPOO_OK);
  float value = 0, gradient = 1;
  ASSERT_EQ(shampoo_add_tensor(setup_, "last", 0, nullptr, {&value, SHAMPOO_FLOAT32, nullptr},
                               {&gradient, SHAMPOO_FLOAT32, nullptr}),
            SHAMPOO_OK);
  create();
  slab_.gradients = gradients_.data();
  ASSERT_EQ(shampoo_set_gradients(optimizer_, &slab_), SHAMPOO_OK);
  for (int step = 0; step < 2; ++step) ASSERT_EQ(shampoo_step(optimizer_), SHAMPOO_OK) << error();

  struct Expected {
    std::string label;
    Recipe recipe;
    double learning_rate, weight_decay;
  };
  const std::vector<Expected> expected = {{"vectors", recipes::adamw(), 0.125, 0},
                                          {"embeddings", recipes::adamw(), 0.125, 0.125},
                                          {"matrices", recipes::soap(), 0.125, 0.125},
                                          {"last", recipes::adamw(), 1e-3, 1}};
  ASSERT_EQ(shampoo_group_count(optimizer_), 4);
  for (int g = 0; g < 4; ++g) {
    double learning_rate = 0, weight_decay = 0;
    EXPECT_EQ(shampoo_group_label(optimizer_, g), expected[g].label);
    EXPECT_EQ(shampoo_group_recipe(optimizer_, g), canonical_text(expected[g].recipe));
    shampoo_get_rate(optimizer_, g, "learning_rate", &learning_rate);
    shampoo_get_rate(optimizer_, g, "weight_decay", &weight_decay);
    EXPECT_EQ(learning_rate, expected[g].learning_rate) << expected[g].label;
    EXPECT_EQ(weight_decay, expected[g].weight_decay) << expected[g].label;
  }
  EXPECT_GT(calls, 0);

  expect_error(shampoo_set_rate(optimizer_, 3, "weight_decay", 0.5),
               "group 3 'last': rate 'weight_decay': has a schedule, which sets it in every step; "
               "change it in the factor of shampoo_setup_schedule(), or make the optimizer without "
               "the schedule");
  EXPECT_EQ(shampoo_set_rate(optimizer_, 3, "learning_rate", 0.5), SHAMPOO_OK);
  EXPECT_EQ(shampoo_step(optimizer_), SHAMPOO_OK) << error();
}

TEST_F(CTrainer, SchedulesAreOfAllGroupsOfATableInJsonWhoseRatesAreItsOwn) {
  ASSERT_EQ(add_slab(), SHAMPOO_OK);
  ASSERT_EQ(shampoo_setup_rate(setup_, "beta1", 0.5), SHAMPOO_OK);
  const char* const json = R"( {"rules": [{"match": {"names": ["scale"]}, "frozen": true}],
                                "otherwise": {"recipe": "adamw", "rates": {"weight_decay": 0.5}}})";
  expect_error(
      shampoo_route(setup_, json),
      "rate 'beta1': was set by shampoo_setup_rate(), but JSON has rates of its own; put it "
      "into \"rates\"");

  shampoo_setup_free(std::exchange(setup_, nullptr));
  ASSERT_EQ(shampoo_setup_create(&setup_), SHAMPOO_OK);
  ASSERT_EQ(add_slab(), SHAMPOO_OK);
  ASSERT_EQ(shampoo_setup_warm_up_stable_decay(setup_, "learning_rate", 1, 1, 2), SHAMPOO_OK);
  ASSERT_EQ(shampoo_route(setup_, json), SHAMPOO_OK) << error();
  create();
  slab_.gradients = gradients_.data();
  ASSERT_EQ(shampoo_set_gradients(optimizer_, &slab_), SHAMPOO_OK);
  expect_gradients_at(gradients_.data());  // the frozen one, too
  ASSERT_EQ(shampoo_step(optimizer_), SHAMPOO_OK) << error();
  for (int g = 0; g < 2; ++g) {
    double rate = 0;
    ASSERT_EQ(shampoo_get_rate(optimizer_, g, "learning_rate", &rate), SHAMPOO_OK);
    EXPECT_EQ(rate, 0.1 * 1e-3);
  }
}

TEST_F(CTrainer, LendsAllGradientsOfASlabAtOnce) {
  std::vector<float> other_values(6), other_gradients(6);
  const shampoo_slab other = {other_values.data(), SHAMPOO_FLOAT32, other_gradients.data(),
                              SHAMPOO_FLOAT32};
  const shampoo_entry entry = {"other.%d", 1, {3}, 2};
  ASSERT_EQ(add_slab(), SHAMPOO_OK);
  ASSERT_EQ(shampoo_add_slab(setup_, &other, &entry, 1, nullptr), SHAMPOO_OK);
  // Groups whose order is not that of the slab, and another slab among them.
  ASSERT_EQ(shampoo_route(setup_, "muon"), SHAMPOO_OK) << error();
  create();
  const auto others = [&] {
    std::vector<void*> found;
    for_each_parameter([&](const Parameter& parameter) {
      if (parameter.name.starts_with("other")) found.push_back(parameter.gradient.data);
    });
    return found;
  };
  const auto expect_slab_at = [&](const float* gradients) {
    expect_gradients_at(gradients);
    EXPECT_EQ(others(), (std::vector<void*>{other_gradients.data(), other_gradients.data() + 3}));
  };
  expect_slab_at(nullptr);

  slab_.gradients = gradients_.data();
  ASSERT_EQ(shampoo_set_gradients(optimizer_, &slab_), SHAMPOO_OK) << error();
  expect_slab_at(gradients_.data());

  // The last tensor overlaps a value of the other slab, and none has changed.
  slab_.gradients = other_values.data() - slab_elements + 1;
  EXPECT_EQ(shampoo_set_gradients(optimizer_, &slab_), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_NE(error().find("gradient: overlaps the value of a parameter"), std::string::npos);
  expect_slab_at(gradients_.data());
  slab_.gradients = gradients_.data();
  slab_.gradient_type = SHAMPOO_BFLOAT16;
  EXPECT_EQ(shampoo_set_gradients(optimizer_, &slab_), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_NE(error().find("gradient.type: must be that of the registration, float32, got bfloat16"),
            std::string::npos);
  expect_slab_at(gradients_.data());

  slab_.gradients = nullptr;
  slab_.gradient_type = SHAMPOO_FLOAT32;
  ASSERT_EQ(shampoo_set_gradients(optimizer_, &slab_), SHAMPOO_OK) << error();
  expect_slab_at(nullptr);
  const shampoo_slab unknown = {values_.data() + 1, SHAMPOO_BFLOAT16, nullptr, SHAMPOO_FLOAT32};
  expect_error(shampoo_set_gradients(optimizer_, &unknown),
               "slab.values: must be where the values of a slab begin that tensors were added "
               "from");
}

TEST_F(CTrainer, MakesABackendAndRanksOfItsOwn) {
  EXPECT_EQ(shampoo_optimizer_ranks(nullptr), nullptr);
  ASSERT_EQ(add_slab(), SHAMPOO_OK);
  ASSERT_EQ(shampoo_route(setup_, ""), SHAMPOO_OK);
  create();
  EXPECT_EQ(shampoo_size(shampoo_optimizer_ranks(optimizer_)), 1);

  shampoo_backend* backend = nullptr;
  shampoo_communicator* ranks = nullptr;
  shampoo_optimizer* second = nullptr;
  ASSERT_EQ(shampoo_cpu_backend(1, &backend), SHAMPOO_OK);
  ASSERT_EQ(shampoo_single_rank(backend, &ranks), SHAMPOO_OK);
  ASSERT_EQ(shampoo_optimizer_create(backend, ranks, setup_, &second), SHAMPOO_OK);
  EXPECT_EQ(shampoo_optimizer_ranks(second), ranks);
  shampoo_optimizer_free(second);
  ASSERT_EQ(shampoo_optimizer_create(backend, nullptr, setup_, &second), SHAMPOO_OK);
  EXPECT_NE(shampoo_optimizer_ranks(second), ranks);
  shampoo_optimizer_free(second);
  shampoo_communicator_free(ranks);
  shampoo_backend_free(backend);
}

TEST_F(CTrainer, AveragesGradientsOfThreeRanks) {
  run_ranks(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    std::vector<std::uint16_t> values(slab_elements);
    std::vector<float> gradients(slab_elements, static_cast<float>(rank));
    shampoo_slab slab = {values.data(), SHAMPOO_BFLOAT16, nullptr, SHAMPOO_FLOAT32};
    shampoo_communicator ranks{communicator.split(0, rank)};
    shampoo_setup* setup = nullptr;
    shampoo_optimizer* optimizer = nullptr;
    ASSERT_EQ(shampoo_setup_create(&setup), SHAMPOO_OK);
    ASSERT_EQ(shampoo_add_slab(setup, &slab, slab_entries, 4, nullptr), SHAMPOO_OK);
    ASSERT_EQ(shampoo_route(setup, nullptr), SHAMPOO_OK);
    ASSERT_EQ(shampoo_optimizer_create(nullptr, &ranks, setup, &optimizer), SHAMPOO_OK);
    // Those that are absent on all ranks stay so; then all but those of rank 1 are there.
    ASSERT_EQ(shampoo_average_gradients(optimizer), SHAMPOO_OK) << shampoo_last_error();
    EXPECT_EQ(optimizer->optimizer.group(0).parameters()[0].gradient.data, nullptr);
    slab.gradients = rank == 1 ? nullptr : gradients.data();
    ASSERT_EQ(shampoo_set_gradients(optimizer, &slab), SHAMPOO_OK);
    ASSERT_EQ(shampoo_average_gradients(optimizer), SHAMPOO_OK) << shampoo_last_error();
    EXPECT_EQ(gradients, std::vector<float>(slab_elements, rank == 1 ? 1.0f : 2.0f / 3));
    ASSERT_EQ(shampoo_step(optimizer), SHAMPOO_OK) << shampoo_last_error();
    std::int64_t steps = 0;
    ASSERT_EQ(shampoo_steps(optimizer, "h.2.w", &steps), SHAMPOO_OK);
    EXPECT_EQ(steps, 1);
    shampoo_optimizer_free(optimizer);
    shampoo_setup_free(setup);
  });
}

TEST_F(CTrainer, SaysWhatIsWrong) {
  const auto with = [&](shampoo_entry entry) {
    const shampoo_entry both[] = {slab_entries[0], entry};
    return shampoo_add_slab(setup_, &slab_, both, 2, nullptr);
  };
  expect_error(shampoo_add_slab(setup_, &slab_, nullptr, 1, nullptr), "entries: must not be NULL");
  expect_error(with({nullptr, 1, {4}, 0}), "entries[1]: name: must not be NULL");
  expect_error(with({"x", 5, {}, 0}), "entries[1]: 'x': sides: must be in [0, 4], got 5");
  expect_error(with({"x", -1, {}, 0}), "entries[1]: 'x': sides: must be in [0, 4], got -1");
  expect_error(with({"x", 1, {-4}, 0}),
               "entries[1]: parameter 'x': shape: sides must be >= 0, got -4");
  const std::int64_t negative[] = {2, -1};
  expect_error(shampoo_add_from_slab(setup_, "y", 2, negative, &slab_, 0),
               "parameter 'y': shape: sides must be >= 0, got -1");
  expect_error(shampoo_add_stacked(setup_, "z.%d", 2, negative, &slab_, 0, 1, 1),
               "parameter 'z.%d': shape: sides must be >= 0, got -1");
  expect_error(with({"x", 1, {4}, 2}),
               "entries[1]: pattern: must have \"%d\" once and no other '%', got 'x'");
  expect_error(with({"x%d", 1, {4}, 0}),
               "entries[1]: 'x%d': layers: must be in [1, 2^20] for a name with \"%d\", got 0");
  expect_error(with({"x%d", 1, {4}, (1 << 20) + 1}),
               "entries[1]: 'x%d': layers: must be in [1, 2^20] for a name with \"%d\", got "
               "1048577");
  expect_error(with({"x", 1, {4}, -1}), "entries[1]: 'x': layers: must be in [0, 2^20], got -1");
  expect_error(with({"x", 2, {1ll << 30, 1ll << 29}, 0}),
               "entries[1]: 'x': shape: the slab must have less than 2^40 elements");
  EXPECT_TRUE(setup_->unrouted.parameters.empty());
  expect_error(shampoo_clip(setup_, SHAMPOO_CLIP_NONE, 5),
               "limit: must be 0 with SHAMPOO_CLIP_NONE, got 5");

  expect_error(shampoo_setup_schedule(setup_, "learning_rate", nullptr, nullptr),
               "factor: must not be NULL");
  EXPECT_EQ(shampoo_setup_warm_up_stable_decay(setup_, "learning_rate", -1, 0, 1),
            SHAMPOO_INVALID_ARGUMENT);
  EXPECT_NE(error().find("warm_up"), std::string::npos) << error();
  EXPECT_EQ(shampoo_setup_warm_up_stable_decay(setup_, "learning_rat", 0, 0, 1),
            SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(shampoo_setup_rate(setup_, "learning_rat", 1), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(shampoo_route(setup_, "soup"), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_TRUE(error().starts_with("recipe: must be one of shampoo, soap, ")) << error();

  const std::string remedy =
      ": is in no group; call shampoo_begin_group() before it is added, or shampoo_route() behind "
      "it";
  ASSERT_EQ(shampoo_setup_warm_up_stable_decay(setup_, "beta1", 0, 0, 1), SHAMPOO_OK);
  expect_error(shampoo_optimizer_create(nullptr, nullptr, setup_, &optimizer_),
               "schedule of 'beta1'" + remedy);
  ASSERT_EQ(shampoo_setup_rate(setup_, "beta1", 0.5), SHAMPOO_OK);
  expect_error(shampoo_optimizer_create(nullptr, nullptr, setup_, &optimizer_),
               "rate 'beta1'" + remedy);
}

}  // namespace
}  // namespace shampoo::test
