// SPDX-License-Identifier: Apache-2.0
// Exceptions of one rank inside a collective call, wherever they come from.
#include <gtest/gtest.h>

#include <latch>
#include <new>

#include "tests/shampoo/protocol/consensus_trainer.h"
#include "tests/support/counting_backend.h"

namespace shampoo::test {
namespace {

/// A backend of which one call throws.
class FaultyBackend final : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;

  void* allocate(std::size_t bytes) override {
    if (countdown > 0 && --countdown == 0) throw std::bad_alloc();
    return CountingBackend::allocate(bytes);
  }
  void upload(void* to, const void* from_host, std::size_t bytes) override {
    count();
    CountingBackend::upload(to, from_host, bytes);
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    count();
    CountingBackend::download(to_host, from, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    count();
    CountingBackend::copy(to, from, bytes);
  }
  void synchronize() override {
    count();
    CountingBackend::synchronize();
  }
  void scan(const kernels::TileTable& gradients, const double* gradient_scale, bool skips,
            kernels::ScanResult* result) override {
    count();
    CountingBackend::scan(gradients, gradient_scale, skips, result);
  }
  void compare(const kernels::RecordArray& records, void* gathered,
               std::int32_t* proceed) override {
    count();
    CountingBackend::compare(records, gathered, proceed);
  }
  void apply(const kernels::TileTable& elements, const kernels::Mode* modes, const void* segments,
             const std::int32_t* proceed) override {
    count();
    CountingBackend::apply(elements, modes, segments, proceed);
  }

  int countdown = 0;  ///< the call of this number from now on throws; 0: none

 private:
  void count() {
    if (countdown > 0 && --countdown == 0) throw DeviceError("the device is lost");
  }
};

struct FaultyTrainer {
  FaultyTrainer(Communicator& c, const OptimizerOptions& options, int countdown) : rank(c.rank()) {
    backend.countdown = countdown;
    optimizer.emplace(backend, c, model.groups(quick_recipe(), {}), options);
  }

  int rank;
  std::unique_ptr<kernels::Backend> cpu = cpu_kernels({.threads = 1});
  FaultyBackend backend{*cpu};
  ToyModel<float> model{{{9, 8}, {13}, {20, 3}}};
  ToyModel<float> more{{{4, 4}}};
  std::optional<Optimizer> optimizer;
};

using Body = std::function<void(FaultyTrainer&)>;

/// Lets rank 1 fail in each call of its backend in turn that body() makes after two steps. On every
/// other rank body() or the next step must end with the message of that error. Returns the number
/// of calls.
int strike_each_call(const Body& body, const OptimizerOptions& options = {}) {
  for (int call = 1;; ++call) {
    bool struck = false;
    Messages messages;
    std::latch ended(ranks);
    run_ranks(ranks, [&](Communicator& communicator) {
      FaultyTrainer trainer(communicator, options, 0);
      trainer.optimizer->step();
      trainer.optimizer->step();
      if (trainer.rank == 1) trainer.backend.countdown = call;
      try {
        body(trainer);
        if (trainer.rank == 1) struck = trainer.backend.countdown == 0;
        trainer.backend.countdown = 0;
        trainer.optimizer->step();
      } catch (const std::exception& error) {
        if (trainer.rank == 1) struck = true;
        messages[trainer.rank] = error.what();
      }
      ended.arrive_and_wait();  // a rank that leaves would end the others
    });
    if (!struck) return call - 1;
    if (messages[1].empty()) {  // thrown in a destructor, which waits
      EXPECT_EQ(messages, Messages());
      continue;
    }
    for (const std::string& message : messages)
      EXPECT_TRUE(message.find("the device is lost") != std::string::npos ||
                  message.find("std::bad_alloc") != std::string::npos)
          << "call " << call << ": " << message;
    for (const int other : {0, 2})
      EXPECT_NE(messages[other].find("rank 1"), std::string::npos)
          << "call " << call << ": " << messages[other];
    if (testing::Test::HasFailure()) return call;
  }
}

TEST(AnExceptionOfOneRank, InAStepReachesTheOthers) {
  EXPECT_GT(strike_each_call([](FaultyTrainer& trainer) { trainer.optimizer->step(); }), 7);
}

TEST(AnExceptionOfOneRank, InAStepWithAVoteReachesTheOthers) {
  EXPECT_GT(strike_each_call([](FaultyTrainer& trainer) { trainer.optimizer->step(); },
                             {.agree_before_commit = true}),
            8);
}

TEST(AnExceptionOfOneRank, WhileAddingAGroupReachesTheOthers) {
  EXPECT_GT(strike_each_call([](FaultyTrainer& trainer) {
              trainer.more.tensors[0].name = "later";
              trainer.optimizer->add_group(trainer.more.group(quick_recipe()));
            }),
            8);
}

TEST(AnExceptionOfOneRank, WhileCollectingTheStateReachesTheOthers) {
  EXPECT_GT(strike_each_call([](FaultyTrainer& trainer) { trainer.optimizer->full_state_dict(); }),
            4);
}

TEST(AnExceptionOfOneRank, InAConstructorReachesTheOthers) {
  for (int call = 1;; ++call) {
    Messages messages;
    bool struck = false;
    std::latch ended(ranks);
    run_ranks(ranks, [&](Communicator& communicator) {
      const bool fails = communicator.rank() == 1;
      messages[communicator.rank()] = error_of<std::exception>([&] {
        FaultyTrainer trainer(communicator, {}, fails ? call : 0);
        if (fails) struck = trainer.backend.countdown == 0;
        trainer.backend.countdown = 0;
        communicator.barrier().wait();  // at the latest
      });
      if (fails) struck = struck || !messages[1].empty();
      ended.arrive_and_wait();
    });
    if (!struck) {
      EXPECT_GT(call, 8);
      return;
    }
    if (messages[1].empty()) continue;  // see above
    for (const int other : {0, 2})
      ASSERT_NE(messages[other].find("rank 1"), std::string::npos)
          << "call " << call << ": " << messages[other];
  }
}

}  // namespace
}  // namespace shampoo::test
