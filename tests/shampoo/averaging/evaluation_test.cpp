// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <optional>

#include "tests/shampoo/state/state_job.h"
#include "tests/support/counting_backend.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {
namespace {

Trainee averaged() {
  Trainee trainee = small;
  trainee.recipes[0].averaging = PrimalAveraging{};
  return trainee;
}

TEST(Evaluating, TakesOneExchangeEachWayAndNoneWithoutIterates) {
  for (const bool averages : {true, false})
    run_ranks(3, [&](Communicator& ranks) {
      CountingCommunicator counted(ranks);
      Job<float> job(counted, averages ? averaged() : small, {});
      job.train(0, 2);
      const std::int64_t before = counted.collectives();
      Evaluation guard = job.optimizer->evaluate();
      EXPECT_EQ(counted.collectives(), before + (averages ? 1 : 0));
      guard.end();
      EXPECT_EQ(counted.collectives(), before + (averages ? 2 : 0));
      job.train(2, 3);
    });
}

TEST(Evaluating, LetsASaveThatIsUnderWayGoOn) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, averaged(), {});
    job.train(0, 2);
    AsyncCheckpointer checkpointer(*job.optimizer);
    checkpointer.start(folder.path());
    const StateDict saved = job.optimizer->full_state_dict();
    {
      const Evaluation guard = job.optimizer->evaluate();
      EXPECT_TRUE(checkpointer.wait());
      EXPECT_EQ(error_of<std::logic_error>([&] { checkpointer.start(folder.path()); }),
                "save: the evaluation values are in place; end the Evaluation first, in C by "
                "shampoo_end_evaluation()");
    }
    job.train(2, 3);
    load(*job.optimizer, folder.path());
    EXPECT_EQ(job.optimizer->full_state_dict(), saved);
  });
}

TEST(Evaluating, BringsBackWhatWasOverwritten) {
  Alone alone(averaged());
  Job<float>& job = alone.job;
  job.train(0, 2);
  const auto training = job.values();
  {
    const Evaluation guard = job.optimizer->evaluate();
    for (auto& tensor : job.model.tensors) std::ranges::fill(tensor.value, 7.0f);
  }
  EXPECT_EQ(job.values(), training);
}

TEST(Evaluating, FollowsTheOptimizerAndTheGuardWhereTheyMove) {
  Alone alone(averaged());
  Job<float>& job = alone.job;
  job.train(0, 2);
  const auto training = job.values();
  std::optional<Evaluation> guard(job.optimizer->evaluate());
  const auto evaluated = job.values();
  job.optimizer = std::make_unique<Optimizer>(std::move(*job.optimizer));
  Evaluation moved = std::move(*guard);
  guard.reset();
  EXPECT_EQ(job.values(), evaluated);
  moved.end();
  EXPECT_EQ(job.values(), training);
  moved.end();

  Evaluation late = job.optimizer->evaluate();
  job.optimizer.reset();
  late.end();
  EXPECT_EQ(job.values(), evaluated);
}

TEST(Evaluating, NamesTheRankWithABadRateOnAllRanks) {
  std::array<std::string, 3> messages;
  run_ranks(3, [&](Communicator& communicator) {
    Job<float> job(communicator, averaged(), {});
    job.train(0, 2);
    const auto training = job.values();
    Rates& rates = job.optimizer->group(0).rates;
    if (communicator.rank() == 1) rates.train_interpolation = 0;
    messages[static_cast<std::size_t>(communicator.rank())] =
        error_of<std::invalid_argument>([&] { (void)job.optimizer->evaluate(); });
    if (communicator.rank() == 1) rates.train_interpolation = 0.5;
    const std::string differ =
        error_of<CommunicationError>([&] { (void)job.optimizer->evaluate(); });
    expect_says(differ, {"do not have the same rates", "train_interpolation"});
    EXPECT_EQ(job.values(), training);

    rates.train_interpolation = 0.5;
    const Evaluation guard = job.optimizer->evaluate();
    EXPECT_NE(job.values(), training);
  });
  for (const std::string& message : messages)
    expect_says(message, {"rank 1", "group 0", "train_interpolation must be in (0, 1], got 0"});
}

/// Fails to copy within the device.
class FailingCopy : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (fails) throw DeviceError("the device is gone");
    CountingBackend::copy(to, from, bytes);
  }
  bool fails = false;
};

TEST(Evaluating, ChangesNothingWhereOneRankFails) {
  run_ranks(3, [](Communicator& communicator) {
    const auto place = cpu_kernels({.threads = 1});
    FailingCopy backend(*place);
    Job<float> job(communicator, averaged(), {}, {}, &backend);
    job.train(0, 2);
    const auto training = job.values();
    backend.fails = communicator.rank() == 0;
    EXPECT_EQ(error_of<DeviceError>([&] { (void)job.optimizer->evaluate(); }),
              "rank 0: the device is gone");
    backend.fails = false;
    EXPECT_EQ(job.values(), training);
    job.train(2, 3);
    EXPECT_EQ(job.optimizer->steps("tensor0"), 3);
  });
}

TEST(Evaluating, AnEndThatFailsDisablesTheOptimizerUntilAStateIsLoaded) {
  for (const bool in_destructor : {false, true})
    run_ranks(2, [&](Communicator& communicator) {
      const auto place = cpu_kernels({.threads = 1});
      FailingCopy backend(*place);
      Job<float> job(communicator, averaged(), {}, {}, &backend);
      job.train(0, 2);
      const StateDict state = job.optimizer->full_state_dict();
      const auto training = job.values();
      {
        Evaluation guard = job.optimizer->evaluate();
        backend.fails = communicator.rank() == 1;
        if (!in_destructor) {
          EXPECT_THROW(guard.end(), DeviceError);
        }
      }
      backend.fails = false;
      expect_says(error_of<CommunicationError>([&] { job.optimizer->step(); }),
                  {"training values could not be brought back", "rank 1: the device is gone"});
      job.set_values(training);
      job.optimizer->load_state_dict(state);
      job.train(2, 3);
      EXPECT_EQ(job.optimizer->steps("tensor0"), 3);
    });
}

TEST(Evaluating, EndsWithoutAnExchangeWhileAnExceptionPasses) {
  for (const int ranks : {1, 3})
    run_on_cpu(ranks, [&](Communicator& communicator, kernels::Backend& backend) {
      CountingCommunicator counted(communicator);
      Job<float> job(counted, averaged(), {}, {}, &backend);
      job.train(0, 2);
      const StateDict state = job.optimizer->full_state_dict();
      const auto training = job.values();
      std::int64_t collectives = 0;
      EXPECT_THROW(
          {
            const Evaluation guard = job.optimizer->evaluate();
            collectives = counted.collectives();
            throw std::runtime_error("out of test images");
          },
          std::runtime_error);
      EXPECT_EQ(counted.collectives(), collectives);
      if (ranks == 1) {
        EXPECT_EQ(job.values(), training);
      } else {
        expect_says(error_of<CommunicationError>([&] { job.optimizer->step(); }),
                    {"an exception ended an Evaluation"});
        job.set_values(training);
        job.optimizer->load_state_dict(state);
      }
      job.train(2, 3);
      EXPECT_EQ(job.optimizer->steps("tensor0"), 3);
    });
}

TEST(Evaluating, AnExceptionOfOneRankIsToldToThoseThatWaitForTheEnd) {
  const TemporaryFolder folder;
  const std::vector<std::function<void(Optimizer&)>> next_calls = {
      [](Optimizer& optimizer) { optimizer.step(); },
      [](Optimizer& optimizer) { optimizer.average_gradients(); },
      [](Optimizer& optimizer) { (void)optimizer.evaluate(); },
      [](Optimizer& optimizer) { (void)optimizer.full_state_dict(); },
      [&](Optimizer& optimizer) { save(optimizer, folder.path()); },
      [&](Optimizer& optimizer) { AsyncCheckpointer(optimizer).start(folder.path()); },
      {}};  // a load
  for (const bool all_leave : {false, true})
    for (const auto& next_call : next_calls) {
      std::array<std::string, 3> messages;
      run_on_cpu(3, [&](Communicator& communicator, kernels::Backend& backend) {
        Job<float> job(communicator, averaged(), {}, {}, &backend);
        job.train(0, 2);
        const StateDict state = job.optimizer->full_state_dict();
        const auto training = job.values();
        const bool leaves = all_leave || communicator.rank() == 1;
        std::string& message = messages[static_cast<std::size_t>(communicator.rank())];
        try {
          Evaluation guard = job.optimizer->evaluate();
          if (leaves) throw std::runtime_error("out of test images");
          message = error_of<CommunicationError>([&] { guard.end(); });
        } catch (const std::runtime_error&) {
          message = job.optimizer->failure();
        }
        EXPECT_NE(job.optimizer->failure(), "");
        if (leaves && next_call)
          expect_says(error_of<CommunicationError>([&] { next_call(*job.optimizer); }),
                      {"an exception ended an Evaluation"});
        job.set_values(training);
        job.optimizer->load_state_dict(state);
        job.train(2, 3);
        EXPECT_EQ(job.optimizer->steps("tensor0"), 3);
      });
      for (const std::string& message : messages)
        expect_says(message, {"an exception ended an Evaluation"});
      if (!all_leave) expect_says(messages[2], {"rank 1"});
    }
}

TEST(Evaluating, SendsValuesInTheirOwnTypeWhateverTheWireType) {
  for (const bool values : {false, true})
    for (const int ranks : {1, 3})
      run_ranks(ranks, [&](Communicator& communicator) {
        Trainee trainee = averaged();
        trainee.recipes[0].communication.values = values;
        if (!values) trainee.recipes[0].communication.type = Type::bfloat16;
        Job<float> job(communicator, trainee, {});
        job.train(0, 3);
        const StateDict state = job.optimizer->full_state_dict();
        const auto factor =
            static_cast<float>(1 - 1 / job.optimizer->group(0).rates.train_interpolation);
        std::vector<std::vector<float>> expected = job.model.values();
        for (std::size_t t = 0; t < expected.size(); ++t) {
          const StateTensor& iterate = *state.find("tensor" + std::to_string(t) + "/iterate");
          for (std::size_t i = 0; i < expected[t].size(); ++i) {
            float z = 0;
            std::memcpy(&z, iterate.bytes.data() + i * sizeof(z), sizeof(z));
            expected[t][i] += factor * (z - expected[t][i]);
          }
        }
        const Evaluation guard = job.optimizer->evaluate();
        EXPECT_EQ(job.model.values(), expected);
      });
}

}  // namespace
}  // namespace shampoo::test
