// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "shampoo/c.h"
#include "shampoo/shampoo.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {
namespace {

/// Three layers of a stacked tensor 3 x 4 x 5, behind 2 elements, and gradients of ones.
class CInterface : public testing::Test {
 protected:
  CInterface() {
    EXPECT_EQ(shampoo_cpu_backend(1, &backend_), SHAMPOO_OK);
    EXPECT_EQ(shampoo_single_rank(backend_, &ranks_), SHAMPOO_OK);
    EXPECT_EQ(shampoo_setup_create(&setup_), SHAMPOO_OK);
  }
  ~CInterface() override {
    shampoo_optimizer_free(optimizer_);
    shampoo_setup_free(setup_);
    shampoo_communicator_free(ranks_);
    shampoo_backend_free(backend_);
  }

  shampoo_status create() {
    shampoo_optimizer_free(std::exchange(optimizer_, nullptr));
    return shampoo_optimizer_create(backend_, ranks_, setup_, &optimizer_);
  }
  shampoo_status add_stacked(const char* pattern, std::int64_t count = 3) {
    const std::int64_t shape[] = {4, 5};
    return shampoo_add_stacked(setup_, pattern, 2, shape, &slab_, 2, 20, count);
  }
  static std::string error() { return shampoo_last_error(); }

  std::vector<float> values_ = std::vector<float>(62, 1.0f), gradients_ = values_;
  shampoo_slab slab_ = {values_.data(), SHAMPOO_FLOAT32, gradients_.data(), SHAMPOO_FLOAT32};
  shampoo_backend* backend_ = nullptr;
  shampoo_communicator* ranks_ = nullptr;
  shampoo_setup* setup_ = nullptr;
  shampoo_optimizer* optimizer_ = nullptr;
};

TEST_F(CInterface, RoutesTensorsAndKeepsRecipesAsTexts) {
  ASSERT_EQ(add_stacked("h.%d.w"), SHAMPOO_OK);
  ASSERT_EQ(create(), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(error(),
            "parameter 'h.0.w': is in no group; call shampoo_begin_group() before it is added, or "
            "shampoo_route() behind it");
  ASSERT_EQ(shampoo_route(setup_, R"({"rules": [{"match": {"names": ["h.1.w"]},
      "recipe": "adamw", "label": "one"}], "otherwise": {"recipe": "soap", "label": "rest"}})"),
            SHAMPOO_OK)
      << error();
  ASSERT_EQ(shampoo_begin_group(setup_, "last", canonical_text(recipes::lion()).c_str()),
            SHAMPOO_OK);
  const std::int64_t shape[] = {1, 2};
  ASSERT_EQ(shampoo_add_from_slab(setup_, "first", 2, shape, &slab_, 0), SHAMPOO_OK);
  ASSERT_EQ(create(), SHAMPOO_OK) << error();
  ASSERT_EQ(shampoo_group_count(optimizer_), 3);
  const std::vector<std::pair<std::string, Recipe>> expected = {
      {"one", recipes::adamw()}, {"rest", recipes::soap()}, {"last", recipes::lion()}};
  for (int g = 0; g < 3; ++g) {
    EXPECT_EQ(shampoo_group_label(optimizer_, g), expected[g].first);
    EXPECT_EQ(shampoo_group_recipe(optimizer_, g), canonical_text(expected[g].second));
  }
  double rate = 0;
  ASSERT_EQ(shampoo_get_rate(optimizer_, 1, "learning_rate", &rate), SHAMPOO_OK);
  EXPECT_EQ(rate, recipes::soap_rates().learning_rate);
  EXPECT_EQ(shampoo_group_label(optimizer_, 3), nullptr);
  EXPECT_EQ(error(), "optimizer: there is no group 3 (it has 3, counted from 0)");
}

TEST_F(CInterface, SchedulesRatesOfTheRoutedGroupsThatReadThem) {
  const auto half = [](std::int64_t, void*) { return 0.5; };
  const std::int64_t row[] = {2};
  const auto set_up = [&](const char* rate) {
    shampoo_setup_free(std::exchange(setup_, nullptr));
    ASSERT_EQ(shampoo_setup_create(&setup_), SHAMPOO_OK);
    ASSERT_EQ(add_stacked("h.%d.w"), SHAMPOO_OK);
    ASSERT_EQ(shampoo_add_from_slab(setup_, "first", 1, row, &slab_, 0), SHAMPOO_OK);
    ASSERT_EQ(shampoo_setup_rate(setup_, "momentum", 0.5), SHAMPOO_OK);
    ASSERT_EQ(shampoo_setup_schedule(setup_, rate, half, nullptr), SHAMPOO_OK);
  };
  set_up("evaluation_interpolation");
  EXPECT_EQ(shampoo_route(setup_, "sgd"), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(error(), "schedule: rate 'evaluation_interpolation' is read by none of the groups");

  set_up("momentum");
  ASSERT_EQ(shampoo_route(setup_, "sgd"), SHAMPOO_OK) << error();
  ASSERT_EQ(create(), SHAMPOO_OK) << error();
  ASSERT_EQ(shampoo_group_count(optimizer_), 2);
  ASSERT_EQ(shampoo_step(optimizer_), SHAMPOO_OK) << error();
  for (const int group : {0, 1}) {
    double momentum = -1;
    ASSERT_EQ(shampoo_get_rate(optimizer_, group, "momentum", &momentum), SHAMPOO_OK);
    const std::string label = shampoo_group_label(optimizer_, group);
    EXPECT_EQ(momentum, label == "matrices" ? 0.25 : 0) << label;
  }
}

TEST_F(CInterface, SaysWhatIsWrong) {
  struct Fault {
    std::function<shampoo_status()> call;
    std::string message;
  };
  const std::int64_t shape[] = {4, 5};
  const shampoo_tensor tensor{values_.data(), SHAMPOO_FLOAT32, nullptr};
  const std::vector<Fault> faults = {
      {[&] { return add_stacked("h.w"); },
       "pattern: must have \"%d\" once and no other '%', got 'h.w'"},
      {[&] { return add_stacked("h.%s.%d"); },
       "pattern: must have \"%d\" once and no other '%', got 'h.%s.%d'"},
      {[&] { return add_stacked("h.%d", 0); }, "'h.%d': count: must be in [1, 2^20], got 0"},
      {[&] { return shampoo_add_tensor(setup_, nullptr, 2, shape, tensor, tensor); },
       "name: must not be NULL"},
      {[&] { return shampoo_add_tensor(setup_, "x", -1, shape, tensor, tensor); },
       "sides: must be >= 0, got -1"},
      {[&] { return shampoo_add_from_slab(setup_, "x", 2, shape, &slab_, -3); },
       "parameter 'x': offset: must be in [0, 2^40), got -3"},
      {[&] { return shampoo_route(setup_, "[]"); }, "routes:\nroutes: must be an object, got []"}};
  for (const Fault& fault : faults) {
    EXPECT_EQ(fault.call(), SHAMPOO_INVALID_ARGUMENT) << fault.message;
    EXPECT_EQ(error(), fault.message);
  }
  EXPECT_EQ(shampoo_begin_group(setup_, "", "soup"), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_TRUE(error().starts_with("recipe: must be one of shampoo, soap, ")) << error();

  std::string elsewhere = "not asked";
  std::thread([&] { elsewhere = error(); }).join();
  EXPECT_EQ(elsewhere, "");

  ASSERT_EQ(shampoo_begin_group(setup_, nullptr, nullptr), SHAMPOO_OK);
  ASSERT_EQ(add_stacked("h.%d.w"), SHAMPOO_OK);
  ASSERT_EQ(shampoo_setup_rate(setup_, "learning_rate", -1), SHAMPOO_OK);
  shampoo_optimizer* made = nullptr;
  EXPECT_EQ(shampoo_optimizer_create(backend_, ranks_, setup_, &made), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  EXPECT_NE(error().find("learning_rate"), std::string::npos);
}

TEST_F(CInterface, ListsTensorsWithAFactorAcrossLayers) {
  ASSERT_EQ(shampoo_begin_group(setup_, nullptr, "recipe(blocking=blocking(size=6))"), SHAMPOO_OK);
  const std::int64_t shape[] = {3, 4, 5};
  ASSERT_EQ(shampoo_add_from_slab(setup_, "qkvw", 3, shape, &slab_, 2), SHAMPOO_OK);
  ASSERT_EQ(create(), SHAMPOO_OK) << error();
  const std::string line = "a factor for each of more than two sides: qkvw (3, 4, 5)";
  EXPECT_NE(std::string(shampoo_describe(optimizer_)).find(line), std::string::npos)
      << shampoo_describe(optimizer_);

  shampoo_setup_free(std::exchange(setup_, nullptr));
  ASSERT_EQ(shampoo_setup_create(&setup_), SHAMPOO_OK);
  ASSERT_EQ(shampoo_begin_group(setup_, nullptr, "recipe(blocking=blocking(size=6))"), SHAMPOO_OK);
  ASSERT_EQ(add_stacked("h.%d.w"), SHAMPOO_OK);
  ASSERT_EQ(create(), SHAMPOO_OK) << error();
  EXPECT_EQ(std::string(shampoo_describe(optimizer_)).find("a factor for each"), std::string::npos);
}

TEST_F(CInterface, TrainsAveragesEvaluatesAndResumes) {
  ASSERT_EQ(shampoo_begin_group(setup_, nullptr, "schedule_free_adamw"), SHAMPOO_OK);
  ASSERT_EQ(add_stacked("h.%d.w"), SHAMPOO_OK);
  ASSERT_EQ(create(), SHAMPOO_OK) << error();
  const shampoo_span span{gradients_.data(), 62, SHAMPOO_FLOAT32};
  EXPECT_EQ(shampoo_average(ranks_, &span, 1, nullptr), SHAMPOO_OK);
  EXPECT_EQ(shampoo_broadcast(ranks_, span, 0, nullptr), SHAMPOO_OK);
  EXPECT_EQ(shampoo_broadcast(ranks_, span, 1, nullptr), SHAMPOO_INVALID_ARGUMENT);
  for (const shampoo_span& wrong :
       {shampoo_span{nullptr, 4, SHAMPOO_FLOAT32},
        shampoo_span{values_.data(), -4, SHAMPOO_FLOAT32},
        shampoo_span{values_.data(), (std::int64_t{1} << 62) + 4, SHAMPOO_FLOAT32}}) {
    EXPECT_EQ(shampoo_broadcast(ranks_, wrong, 0, nullptr), SHAMPOO_INVALID_ARGUMENT);
    EXPECT_EQ(error(),
              "broadcast: a tensor must have a count in [0, 2^59) and, unless that is 0, "
              "data; got count " +
                  std::to_string(wrong.count));
    EXPECT_EQ(shampoo_average(ranks_, &wrong, 1, nullptr), SHAMPOO_INVALID_ARGUMENT);
  }
  EXPECT_EQ(shampoo_latest_step(optimizer_, nullptr, nullptr, nullptr), SHAMPOO_LOGIC_ERROR);
  ASSERT_EQ(shampoo_set_gradient(optimizer_, 0, "h.2.w", nullptr), SHAMPOO_OK);
  EXPECT_EQ(shampoo_set_gradient(optimizer_, 0, "h.3.w", nullptr), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(error(), "group 0: there is no parameter 'h.3.w'");
  ASSERT_EQ(shampoo_set_parameter_rate(optimizer_, 0, "h.1.w", "learning_rate", 0), SHAMPOO_OK);
  for (int step = 0; step < 2; ++step) ASSERT_EQ(shampoo_step(optimizer_), SHAMPOO_OK) << error();
  EXPECT_EQ(values_[1], 1.0f);
  EXPECT_NE(values_[2], 1.0f);
  EXPECT_EQ(values_[22], 1.0f);
  EXPECT_EQ(values_[42], 1.0f);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ASSERT_EQ(shampoo_set_parameter_rate(optimizer_, 0, "h.1.w", "learning_rate", nan), SHAMPOO_OK);
  ASSERT_EQ(shampoo_step(optimizer_), SHAMPOO_OK) << error();
  EXPECT_NE(values_[22], 1.0f);
  double norm = 0;
  ASSERT_EQ(shampoo_latest_step(optimizer_, nullptr, &norm, nullptr), SHAMPOO_OK);
  EXPECT_FLOAT_EQ(static_cast<float>(norm), std::sqrt(40.0f));
  std::int64_t steps = -1;
  ASSERT_EQ(shampoo_steps(optimizer_, "h.2.w", &steps), SHAMPOO_OK);
  EXPECT_EQ(steps, 0);

  const std::vector<float> trained = values_;
  EXPECT_EQ(shampoo_end_evaluation(optimizer_), SHAMPOO_LOGIC_ERROR);
  ASSERT_EQ(shampoo_evaluate(optimizer_), SHAMPOO_OK);
  EXPECT_NE(values_, trained);
  EXPECT_EQ(shampoo_step(optimizer_), SHAMPOO_LOGIC_ERROR);
  EXPECT_NE(error().find("shampoo_end_evaluation()"), std::string::npos) << error();
  ASSERT_EQ(shampoo_end_evaluation(optimizer_), SHAMPOO_OK);
  EXPECT_EQ(values_, trained);

  const TemporaryFolder folder;
  const std::string directory = (folder.path() / "checkpoints").string();
  shampoo_user_state* user = nullptr;
  ASSERT_EQ(shampoo_user_state_create(&user), SHAMPOO_OK);
  std::uint8_t generator[3] = {1, 2, 3};
  ASSERT_EQ(shampoo_user_state_add_values(user, optimizer_), SHAMPOO_OK);
  ASSERT_EQ(shampoo_user_state_add_bytes(user, "generator", generator, 3, 1), SHAMPOO_OK);
  EXPECT_EQ(shampoo_user_state_add_bytes(user, "none", nullptr, 3, 0), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(error(), "user state 'none': tensor.data: must not be null");
  const std::int64_t shape[] = {2};
  EXPECT_EQ(
      shampoo_user_state_add_tensor(user, "none", 1, shape, {nullptr, SHAMPOO_FLOAT32, nullptr}),
      SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(error(), "user state 'none': tensor.data: must not be null");
  ASSERT_EQ(shampoo_user_state_set_integer(user, "epoch", 7), SHAMPOO_OK);
  ASSERT_EQ(shampoo_user_state_set_number(user, "loss", 0.5), SHAMPOO_OK);
  std::int64_t step = 0, epoch = 0;
  ASSERT_EQ(shampoo_resume(optimizer_, directory.c_str(), user, &step), SHAMPOO_OK);
  EXPECT_EQ(step, -1);
  ASSERT_EQ(shampoo_save(optimizer_, directory.c_str(), user, 0), SHAMPOO_OK) << error();
  std::ranges::fill(values_, 9.0f);
  generator[1] = 0;
  ASSERT_EQ(shampoo_user_state_set_integer(user, "epoch", 0), SHAMPOO_OK);
  ASSERT_EQ(shampoo_resume(optimizer_, directory.c_str(), user, &step), SHAMPOO_OK) << error();
  EXPECT_EQ(step, 3);
  EXPECT_EQ(generator[1], 2);
  EXPECT_TRUE(std::equal(trained.begin() + 2, trained.end(), values_.begin() + 2));
  ASSERT_EQ(shampoo_user_state_get_integer(user, "epoch", &epoch), SHAMPOO_OK);
  EXPECT_EQ(epoch, 7);
  EXPECT_EQ(shampoo_user_state_get_integer(user, "loss", &epoch), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(shampoo_save(optimizer_, "/proc/none", user, 0), SHAMPOO_SYSTEM_ERROR);
  shampoo_user_state_free(user);
}

TEST_F(CInterface, DividesALossScaleOutAndLoadsAFolder) {
  const auto set_up = [&] {
    ASSERT_EQ(shampoo_begin_group(setup_, nullptr, "adamw"), SHAMPOO_OK);
    ASSERT_EQ(add_stacked("h.%d.w"), SHAMPOO_OK);
  };
  set_up();
  EXPECT_EQ(shampoo_scale_loss(setup_, static_cast<shampoo_loss_scaling>(3), 1),
            SHAMPOO_INVALID_ARGUMENT);
  EXPECT_EQ(error(), "scaling: must be in [0, 2], got 3");
  ASSERT_EQ(shampoo_scale_loss(setup_, SHAMPOO_LOSS_SCALE_DYNAMIC, 3), SHAMPOO_OK);
  ASSERT_EQ(create(), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_NE(error().find("loss_scaling.initial must be a power of two"), std::string::npos)
      << error();
  ASSERT_EQ(shampoo_scale_loss(setup_, SHAMPOO_LOSS_SCALE_DYNAMIC, 8), SHAMPOO_OK);
  ASSERT_EQ(shampoo_guard_spikes(setup_, 2, 1), SHAMPOO_OK);
  ASSERT_EQ(create(), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_NE(error().find("spike_guard.window"), std::string::npos) << error();
  ASSERT_EQ(shampoo_guard_spikes(setup_, 2, 4), SHAMPOO_OK);
  ASSERT_EQ(create(), SHAMPOO_OK) << error();

  double scale = 0, norm = 0;
  int applied = -1;
  std::ranges::fill(gradients_, 8.0f);
  ASSERT_EQ(shampoo_step(optimizer_), SHAMPOO_OK) << error();
  ASSERT_EQ(shampoo_latest_step(optimizer_, &applied, &norm, nullptr), SHAMPOO_OK);
  EXPECT_EQ(applied, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(norm), std::sqrt(60.0f));
  gradients_[2] = INFINITY;
  ASSERT_EQ(shampoo_step(optimizer_), SHAMPOO_OK) << error();
  ASSERT_EQ(shampoo_latest_step(optimizer_, &applied, nullptr, nullptr), SHAMPOO_OK);
  EXPECT_EQ(applied, 0);
  const char *gradient = nullptr, *direction = nullptr;
  ASSERT_EQ(shampoo_non_finite(optimizer_, &gradient, &direction), SHAMPOO_OK);
  EXPECT_STREQ(gradient, "h.0.w");
  EXPECT_STREQ(direction, "");
  EXPECT_EQ(shampoo_loss_scale(optimizer_, nullptr), SHAMPOO_INVALID_ARGUMENT);
  ASSERT_EQ(shampoo_loss_scale(optimizer_, &scale), SHAMPOO_OK);
  EXPECT_EQ(scale, 4.0);

  const TemporaryFolder folder;
  const std::string directory = (folder.path() / "checkpoints").string();
  const std::string first = directory + "/step-2";  // the second was skipped
  std::int64_t step = 0;
  EXPECT_EQ(shampoo_load(optimizer_, directory.c_str(), nullptr, &step), SHAMPOO_CHECKPOINT_ERROR);
  ASSERT_EQ(shampoo_save(optimizer_, directory.c_str(), nullptr, 0), SHAMPOO_OK) << error();
  gradients_[2] = 4;
  ASSERT_EQ(shampoo_step(optimizer_), SHAMPOO_OK) << error();
  ASSERT_EQ(shampoo_save(optimizer_, directory.c_str(), nullptr, 0), SHAMPOO_OK) << error();
  ASSERT_EQ(shampoo_load(optimizer_, first.c_str(), nullptr, &step), SHAMPOO_OK) << error();
  EXPECT_EQ(step, 2);
  ASSERT_EQ(shampoo_steps(optimizer_, "h.0.w", &step), SHAMPOO_OK);
  EXPECT_EQ(step, 1);
  ASSERT_EQ(shampoo_load(optimizer_, directory.c_str(), nullptr, &step), SHAMPOO_OK) << error();
  EXPECT_EQ(step, 3);
}

TEST_F(CInterface, LeavesBytesOfAnotherNumberOfRanksWhereThatIsAskedFor) {
  const TemporaryFolder folder;
  const std::string directory = (folder.path() / "checkpoints").string();
  std::uint8_t generator[2] = {7, 8};
  run_ranks(2, [&](Communicator& ranks) {
    float value = 2;
    const auto backend = cpu_backend({.threads = 1});
    Optimizer optimizer(*backend, ranks,
                        {{.parameters = {{"w", {1}, {}, &value}}, .recipe = recipes::adamw()}});
    std::uint8_t own = 1;
    save(optimizer, directory,
         {.tensors = {{"w", {1}, &value}, {"generator", {1}, &own, Sharding::per_rank}}});
  });
  const std::int64_t shape[] = {1};
  ASSERT_EQ(shampoo_begin_group(setup_, nullptr, canonical_text(recipes::adamw()).c_str()),
            SHAMPOO_OK);
  ASSERT_EQ(shampoo_add_from_slab(setup_, "w", 1, shape, &slab_, 0), SHAMPOO_OK);
  ASSERT_EQ(create(), SHAMPOO_OK) << error();
  shampoo_user_state* user = nullptr;
  ASSERT_EQ(shampoo_user_state_create(&user), SHAMPOO_OK);
  ASSERT_EQ(shampoo_user_state_add_values(user, optimizer_), SHAMPOO_OK);
  ASSERT_EQ(shampoo_user_state_add_bytes(user, "generator", generator, 2, 1), SHAMPOO_OK);
  EXPECT_EQ(shampoo_resume(optimizer_, directory.c_str(), user, nullptr), SHAMPOO_INVALID_ARGUMENT);
  EXPECT_NE(error().find("'generator': was saved by each of 2 ranks, and there are 1"),
            std::string::npos)
      << error();
  ASSERT_EQ(shampoo_user_state_other_ranks(user, 1), SHAMPOO_OK);
  EXPECT_EQ(shampoo_resume(optimizer_, directory.c_str(), user, nullptr), SHAMPOO_OK) << error();
  EXPECT_EQ(values_[0], 2.0f);
  EXPECT_EQ(generator[0], 7);
  ASSERT_EQ(shampoo_user_state_other_ranks(user, 0), SHAMPOO_OK);
  EXPECT_EQ(shampoo_resume(optimizer_, directory.c_str(), user, nullptr), SHAMPOO_INVALID_ARGUMENT);
  shampoo_user_state_free(user);
}

}  // namespace
}  // namespace shampoo::test
