// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <new>

#include "shampoo/state/gather_state.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/support/counting_backend.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/device/ranks_at.h"

namespace shampoo::test {
namespace {

/// Fails to copy state from or to the device; headers and error texts are still exchanged.
class FailingCopies : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;

  void upload(void* to, const void* from_host, std::size_t bytes) override {
    if (fails_upload && bytes > header) throw DeviceError("the device is gone");
    CountingBackend::upload(to, from_host, bytes);
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    if (fails_download && bytes > header && bytes != 3 * header) throw std::bad_alloc();
    CountingBackend::download(to_host, from, bytes);
  }

  static constexpr std::size_t header = 64;
  bool fails_upload = false, fails_download = false;
};

class StateOfRanks : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }

  void on_ranks(int ranks, const RankBody& body) const { run_ranks_at(GetParam(), ranks, body); }
};

TEST_P(StateOfRanks, ThatOneRankCannotCollectIsAnErrorOfAll) {
  std::array<std::string, 3> messages;
  on_ranks(3, [&](Communicator& communicator, kernels::Backend& place) {
    FailingCopies backend(place);
    Job<float> job(communicator, small, {}, {}, &backend);
    job.train(0, 2);
    backend.fails_download = communicator.rank() == 1;
    messages[static_cast<std::size_t>(communicator.rank())] =
        error_of<std::runtime_error>([&] { job.optimizer->full_state_dict(); });
    backend.fails_download = false;
    EXPECT_GT(job.optimizer->full_state_dict().bytes(), 0);
    job.train(2, 3);
  });
  for (const std::string& message : messages) EXPECT_EQ(message, "rank 1: std::bad_alloc");
}

TEST_P(StateOfRanks, ThatOneRankFailsToReplaceEndsAll) {
  const StateDict good = trained_state();
  on_ranks(3, [&](Communicator& communicator, kernels::Backend& place) {
    FailingCopies backend(place);
    Job<float> job(communicator, small, {}, {}, &backend);
    communicator.barrier().wait();
    std::string message;
    if (communicator.rank() == 1) {
      backend.fails_upload = true;
      message = error_of<CommunicationError>([&] { job.optimizer->load_state_dict(good); });
    } else {
      message = error_of<CommunicationError>([&] {
        job.optimizer->load_state_dict(good);
        job.train(steps_before, steps_before + 1);
      });
    }
    expect_says(message, {"the device is gone", "no longer be used"});
  });
}

TEST_P(StateOfRanks, OfWhichOneIsAtAnotherCallSaysSo) {
  const StateDict good = trained_state();
  std::array<std::string, 3> messages;
  on_ranks(3, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, small, {}, {}, &backend);
    messages[static_cast<std::size_t>(communicator.rank())] = error_of<CommunicationError>([&] {
      if (communicator.rank() == 1)
        job.optimizer->full_state_dict();
      else
        job.optimizer->load_state_dict(good);
    });
  });
  for (const std::string& message : messages)
    expect_says(message, {"collecting the state on rank 1", "loading a state on ranks 0 and 2"});
}

TEST(APreparedStep, IsPreparedAgainAfterALoad) {
  Alone alone;
  alone.job.optimizer->prepare_step();
  alone.job.optimizer->load_state_dict(trained_state());
  EXPECT_THROW(alone.job.optimizer->enqueue_step(), std::logic_error);
  EXPECT_TRUE(alone.job.optimizer->step().applied());
}

TEST(AGather, BringsEveryByteInAnyNumberOfPortions) {
  const Trainee trainee{.shapes = awkward_shapes()};
  const End<float> saved = train_first<float>(trainee, {});
  for (const std::int64_t portion : {1, 7, 1000, 1 << 20})
    run_ranks(3, [&](Communicator& communicator) {
      Job<float> job(communicator, trainee, {});
      job.train(0, portion < 7 ? 1 : steps_before);
      const StateDict own = job.optimizer->state_dict();
      const auto backend = cpu_kernels({.threads = 1});
      StepProtocol protocol(*backend, communicator, {});
      const StateDict full =
          gather_state(*backend, communicator, protocol, own, {}, Gather::everywhere, portion);
      if (portion < 7)
        EXPECT_EQ(full, job.optimizer->full_state_dict());
      else
        EXPECT_EQ(full.tensors, saved.state.tensors);
    });
}

TEST(AGroupAddedLater, KeepsItsStateWhereTheStateDictLacksIt) {
  const Trainee more{.shapes = {{9, 8}, {13}, {20, 3}, {6, 5}}};
  const End<float> saved = train_first<float>(small, {});
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, more, {.groups = 2, .reversed = true});
    EXPECT_THROW(job.optimizer->load_state_dict(saved.state), std::invalid_argument);
    const LoadReport report = job.optimizer->load_state_dict(saved.state, {.strict = false});
    EXPECT_EQ(report.missing, std::vector<std::string>{"tensor3"});
    EXPECT_EQ(job.optimizer->steps("tensor3"), 0);
    const StateDict after = job.optimizer->full_state_dict();
    for (const StateTensor& tensor : saved.state.tensors)
      EXPECT_EQ(*after.find(tensor.name()), tensor);
    job.train(0, 1);
    EXPECT_EQ(job.optimizer->steps("tensor3"), 1);
    EXPECT_EQ(job.optimizer->steps("tensor0"), steps_before + 1);
  });
}

TEST_P(StateOfRanks, WithAFaultOnOneIsRefusedByAllAndLeavesAllAsTheyWere) {
  const StateDict good = trained_state();
  std::array<std::string, 3> messages;
  on_ranks(3, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, small, {}, {}, &backend);
    job.train(0, 4);
    const auto state = state_of(*job.optimizer, job.model);
    const StateDict before = job.optimizer->state_dict();
    StateDict dict = good;
    if (communicator.rank() == 1) tensor_of(dict, "tensor1/grafting").bytes.clear();
    std::string& message = messages[static_cast<std::size_t>(communicator.rank())];
    message = error_of<std::invalid_argument>([&] { job.optimizer->load_state_dict(dict); });
    EXPECT_EQ(state_of(*job.optimizer, job.model), state);
    EXPECT_EQ(job.optimizer->state_dict(), before);

    // States that differ in the compared lines are rejected, too.
    dict = good;
    if (communicator.rank() == 2) ++dict.parameters[0].steps;
    const std::string differ =
        error_of<CommunicationError>([&] { job.optimizer->load_state_dict(dict); });
    expect_says(differ, {"rank 2 has 'parameter 'tensor0': 8 steps'", "ranks 0 and 1"});
    EXPECT_EQ(job.optimizer->state_dict(), before);
    EXPECT_EQ(job.optimizer->failure(), "");
    job.train(4, 5);
    EXPECT_EQ(job.optimizer->steps("tensor0"), 5);
  });
  expect_says(messages[0], {"rank 1: ", "'tensor1/grafting'"});
  EXPECT_EQ(messages[1], messages[0]);
  EXPECT_EQ(messages[2], messages[0]);
}

TEST_P(StateOfRanks, MakesAnOptimizerUsableAgain) {
  const Arrangement alone{.run = [&](int ranks, const RankBody& body) { on_ranks(ranks, body); }};
  const End<float> saved = train_first<float>(small, alone);
  const End<float> undisturbed = train_first<float>(small, alone, steps_before + steps_after);
  on_ranks(3, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, small, {}, {}, &backend);
    job.train(0, 4);
    if (communicator.rank() == 1) job.optimizer->group(0).rates.beta2 = 0.5;
    EXPECT_THROW(job.train(4, 5), CommunicationError);
    const std::string failure = job.optimizer->failure();
    EXPECT_FALSE(failure.empty());
    EXPECT_EQ(error_of<CommunicationError>([&] { job.optimizer->state_dict(); }), failure);
    EXPECT_EQ(error_of<CommunicationError>([&] { job.optimizer->full_state_dict(); }), failure);

    StateDict bad = saved.state;
    bad.format = 0;
    EXPECT_THROW(job.optimizer->load_state_dict(bad), std::invalid_argument);
    EXPECT_EQ(job.optimizer->failure(), failure);

    job.set_values(saved.values);
    job.optimizer->load_state_dict(saved.state);
    EXPECT_EQ(job.optimizer->failure(), "");
    job.train(steps_before, steps_before + steps_after);
    EXPECT_EQ(job.values(), undisturbed.values);
    EXPECT_EQ(job.optimizer->full_state_dict(), undisturbed.state);
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, StateOfRanks, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(ALoad, DoesNotBringBackALostRank) {
  const StateDict good = trained_state();
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    communicator.barrier().wait();
    if (communicator.rank() == 0) communicator.abort("test");
    EXPECT_THROW(job.train(0, 1), CommunicationError);
    EXPECT_THROW(job.optimizer->load_state_dict(good), CommunicationError);
    EXPECT_FALSE(job.optimizer->failure().empty());
  });
}

TEST(RefusedSteps, AreCountedOnAfterALoad) {
  const auto alone = single_rank_communicator();
  const auto refuse = [](Job<float>& job) {
    std::ranges::fill(job.model.tensors[0].gradient, std::numeric_limits<float>::infinity());
    return job.optimizer->step();
  };
  Job<float> job(*alone, small, {}, {.skipped_in_a_row = 3}),
      other(*alone, small, {}, {.skipped_in_a_row = 3});
  job.train(0, 2);
  EXPECT_FALSE(refuse(job).applied());
  EXPECT_FALSE(refuse(job).applied());
  const StateDict dict = job.optimizer->state_dict();
  EXPECT_EQ(dict.progress, (Progress{.attempts = 4, .taken = 2, .skipped_in_a_row = 2}));
  other.optimizer->load_state_dict(dict);
  EXPECT_THROW(refuse(other), NumericalError);
}

}  // namespace
}  // namespace shampoo::test
