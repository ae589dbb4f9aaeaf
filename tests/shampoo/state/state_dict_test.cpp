// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "tests/shampoo/state/state_job.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/device/ranks_at.h"

namespace shampoo::test {
namespace {

/// Values that a load must replace.
const Rates other_rates{.learning_rate = 0.5, .beta1 = 0.5, .beta2 = 0.5, .weight_decay = 0.3};

std::string describe(const Arrangement& a) {
  return std::to_string(a.ranks) + " ranks, " + std::to_string(a.groups) + " groups" +
         (a.merges ? "" : ", not merged") + (a.reversed ? ", reversed" : "");
}

template <typename Scalar>
void expect_to_go_on(const Trainee& trainee, const std::vector<Arrangement>& arrangements) {
  for (const Arrangement& before : arrangements) {
    Arrangement alone = before;
    alone.ranks = 1;
    const End<Scalar> undisturbed = train_first<Scalar>(trainee, alone, steps_before + steps_after);
    const End<Scalar> saved = train_first<Scalar>(trainee, before);
    for (Arrangement after : arrangements) {
      after.rates = other_rates;
      const End<Scalar> end = train_on(saved, trainee, after);
      EXPECT_EQ(end.values, undisturbed.values) << describe(before) << " to " << describe(after);
      EXPECT_EQ(end.state, undisturbed.state) << describe(before) << " to " << describe(after);
    }
  }
}

TEST(AStateDict, LetsTrainingGoOnWithTheSameBitsOnAnyNumberOfRanks) {
  std::vector<Arrangement> arrangements;
  for (const int ranks : {1, 2, 3, 4, 8}) arrangements.push_back({.ranks = ranks, .groups = 2});
  expect_to_go_on<float>(everything(), arrangements);
}

TEST(AStateDict, LetsTrainingGoOnWithTheSameBitsInFloat64) {
  Trainee trainee = everything();
  for (Recipe& recipe : trainee.recipes) recipe.arithmetic = Arithmetic::float64;
  expect_to_go_on<double>(trainee, {{.ranks = 1}, {.ranks = 3}});
}

TEST(AStateDict, DoesNotDependOnGroupsOrMergingOrTheOrderOfParameters) {
  const Trainee trainee = everything();
  const End<float> saved = train_first<float>(trainee, {});
  const End<float> undisturbed = train_first<float>(trainee, {}, steps_before + steps_after);
  for (const Arrangement& after :
       {Arrangement{.ranks = 2, .groups = 3}, Arrangement{.groups = 3, .merges = false},
        Arrangement{.ranks = 3, .groups = 2, .merges = false, .reversed = true},
        Arrangement{.reversed = true}})
    EXPECT_EQ(train_on(saved, trainee, after), undisturbed) << describe(after);
}

TEST(AStateDict, LeavesMergedAndUnmergedRunsTheSameWay) {
  expect_to_go_on<float>(everything(), {{.ranks = 2, .groups = 3},
                                        {.ranks = 3, .groups = 2, .merges = false},
                                        {.ranks = 1, .groups = 1, .reversed = true}});
}

class AStateDictAt : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require(GetParam()); }

  void on_ranks(int ranks, const RankBody& body) const { run_ranks_at(GetParam(), ranks, body); }
  RankRunner runner() const {
    return
        [place = GetParam()](int ranks, const RankBody& body) { run_ranks_at(place, ranks, body); };
  }
  int ranks() const { return GetParam() == Place::cuda ? 1 : 2; }
};

Trainee few() {
  Trainee trainee = everything();
  trainee.shapes = small.shapes;
  return trainee;
}

TEST_P(AStateDictAt, LetsTrainingGoOnWithTheSameBits) {
  expect_to_go_on<float>(few(), {{.ranks = 1, .groups = 2, .run = runner()},
                                 {.ranks = ranks(), .reversed = true, .run = runner()}});
}

TEST_P(AStateDictAt, FromTheCpuIsLoadedBitForBitAndTrainedOn) {
  const End<float> saved = train_first<float>(few(), {});
  on_ranks(ranks(), [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, few(), {}, {}, &backend);
    job.set_values(saved.values);
    const LoadReport report = job.optimizer->load_state_dict(saved.state);
    EXPECT_EQ(report.other_arithmetic.empty(), GetParam() == Place::cpu);
    EXPECT_EQ(job.optimizer->full_state_dict().tensors, saved.state.tensors);
    EXPECT_EQ(job.values(), saved.values);
    job.train(steps_before, steps_before + 2);
    EXPECT_TRUE(job.optimizer->latest_result().applied());
  });
}

TEST_P(AStateDictAt, OfTheFirstMomentIsValid) {
  const Trainee trainee = few();
  on_ranks(ranks(), [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, trainee, {}, {}, &backend);
    Job<float> other(communicator, trainee, {}, {}, &backend);
    const StateDict start = job.optimizer->full_state_dict();
    job.train(0, 3);
    EXPECT_NE(job.optimizer->full_state_dict(), start);
    job.optimizer->load_state_dict(start);
    EXPECT_EQ(job.optimizer->full_state_dict(), start);
    EXPECT_EQ(state_of(*job.optimizer, job.model), state_of(*other.optimizer, other.model));
  });
}

TEST_P(AStateDictAt, IsACopyThatTrainingDoesNotChange) {
  on_ranks(1, [&](Communicator& alone, kernels::Backend& backend) {
    Job<float> job(alone, few(), {}, {}, &backend);
    job.train(0, 3);
    const StateDict held = job.optimizer->state_dict();
    const StateDict copy = held;
    const auto state = state_of(*job.optimizer, job.model);
    job.train(3, 6);
    EXPECT_EQ(held, copy);
    EXPECT_NE(job.optimizer->state_dict(), held);
    job.optimizer->load_state_dict(held);
    EXPECT_EQ(state_of(*job.optimizer, job.model), state) << "down to bytes that belong to no slot";
  });
}

TEST(AStateDict, NamesEveryTensorOnceInOrder) {
  const auto alone = single_rank_communicator();
  Job<float> job(*alone, {.shapes = {{20, 3}}}, {});
  const StateDict dict = job.optimizer->state_dict();
  std::vector<std::string> names;
  for (const StateTensor& tensor : dict.tensors) {
    names.push_back(tensor.name());
    EXPECT_EQ(tensor.bytes.size(), static_cast<std::size_t>(tensor.count()) * size_of(tensor.type));
    EXPECT_EQ(dict.find(tensor.name()), &tensor);
  }
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_EQ(names.front(), "tensor0/factor/0/0.0");
  EXPECT_EQ(names.back(), "tensor0/root/1/8.0");
  EXPECT_NE(dict.find("tensor0/filtered_gradient/16.0"), nullptr);
  EXPECT_EQ(dict.find("tensor0/filtered_gradient"), nullptr);
  const StateDict full = job.optimizer->full_state_dict();
  const StateTensor* const whole = full.find("tensor0/filtered_gradient");
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(whole->shape, (std::vector<std::int64_t>{20, 3}));
  EXPECT_EQ(whole->bytes.size(), 20 * 3 * sizeof(float));
  EXPECT_EQ(full.bytes(), job.optimizer->state_bytes());
}

TEST_P(AStateDictAt, HoldsFactorsAndRootsAsLowerTriangles) {
  on_ranks(1, [&](Communicator& alone, kernels::Backend& backend) {
    Job<float> job(alone, {.shapes = {{5, 4}}}, {}, {}, &backend);
    job.train(0, 4);
    const StateDict dict = job.optimizer->state_dict();
    for (const std::string slot : {"factor/0", "factor/1", "root/0", "root/1"}) {
      const StateTensor* const tensor = dict.find("tensor0/" + slot + "/0.0");
      ASSERT_NE(tensor, nullptr) << slot;
      const SlotView view = job.optimizer->slot("tensor0", 0, slot);
      const auto elements = static_cast<std::size_t>((view.extent[0] - 1) * view.strides[0] +
                                                     (view.extent[1] - 1) * view.strides[1] + 1);
      std::vector<float> numbers(elements);
      download(&backend, numbers.data(), view.data, elements * sizeof(float));
      std::size_t at = 0;
      for (std::int64_t i = 0; i < view.extent[0]; ++i)
        for (std::int64_t j = 0; j <= i; ++j, at += sizeof(float)) {
          float packed;
          std::memcpy(&packed, tensor->bytes.data() + at, sizeof(float));
          const std::int64_t stored =
              view.upper_triangle ? j * view.strides[0] + i : i * view.strides[0] + j;
          EXPECT_EQ(packed, numbers[static_cast<std::size_t>(stored)]);
        }
      EXPECT_EQ(at, tensor->bytes.size());
    }
  });
}

TEST(AStateDict, OfTheRanksTogetherIsTheFullOne) {
  const Trainee trainee = everything();
  const End<float> saved = train_first<float>(trainee, {});
  StateDict parts;
  std::mutex mutex;
  run_ranks(3, [&](Communicator& communicator) {
    Job<float> job(communicator, trainee, {});
    job.train(0, steps_before);
    const StateDict own = job.optimizer->state_dict();
    EXPECT_EQ(job.optimizer->full_state_dict(), saved.state);
    EXPECT_EQ(job.optimizer->state_dict({.contents = false}).bytes(), 0);
    EXPECT_EQ(job.optimizer->state_dict({.contents = false}).tensors.size(), own.tensors.size());
    const std::lock_guard lock(mutex);
    if (parts.parameters.empty()) {
      parts = own;
      return;
    }
    std::ranges::copy(own.tensors, std::back_inserter(parts.tensors));
    for (std::size_t p = 0; p < own.parameters.size(); ++p)
      std::ranges::copy(own.parameters[p].blocks, std::back_inserter(parts.parameters[p].blocks));
  });
  EXPECT_EQ(parts.bytes(), saved.state.bytes());
  EXPECT_EQ(train_on<float>({parts, saved.values}, trainee, {.ranks = 2}),
            train_on(saved, trainee, {.ranks = 1}));
}

TEST(AStateDict, OfOneRankIsEnoughForTheSameRank) {
  run_ranks(3, [&](Communicator& communicator) {
    Job<float> job(communicator, everything(), {}), other(communicator, everything(), {});
    job.train(0, 5);
    other.optimizer->load_state_dict(job.optimizer->state_dict());
    EXPECT_EQ(state_of(*job.optimizer, job.model), state_of(*other.optimizer, other.model));
    EXPECT_EQ(job.optimizer->state_dict(), other.optimizer->state_dict());
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, AStateDictAt, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(OnRank0, OnlyItHasTheState) {
  run_ranks(3, [&](Communicator& threads) {
    CountingCommunicator communicator(threads);
    Job<float> job(communicator, everything(), {});
    const std::int64_t before = communicator.gathered_bytes();
    const StateDict full = job.optimizer->full_state_dict({}, Gather::on_rank_0);
    const std::int64_t gathered = communicator.gathered_bytes() - before;
    EXPECT_EQ(full.tensors.empty(), communicator.rank() != 0);
    EXPECT_EQ(full.bytes() > 0, communicator.rank() == 0);
    (void)job.optimizer->full_state_dict({});
    EXPECT_GT(communicator.gathered_bytes() - before - gathered,
              gathered + job.optimizer->state_bytes())
        << "the others receive descriptions only";
  });
}

}  // namespace
}  // namespace shampoo::test
