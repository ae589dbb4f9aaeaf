// SPDX-License-Identifier: Apache-2.0
// Ranks of which one makes another call than the others: each learns of both calls.
#include <gtest/gtest.h>

#include <filesystem>
#include <latch>
#include <thread>

#include "distributor/transports/gloo/gloo.h"
#include "shampoo/checkpoint.h"
#include "tests/shampoo/protocol/consensus_trainer.h"
#include "tests/support/memory_store.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Call = void (*)(Trainer&);

void step(Trainer& trainer) { trainer.optimizer.step(); }
void save_checkpoint(Trainer& trainer) {
  save(trainer.optimizer, std::filesystem::path(testing::TempDir()) / "mismatched_calls");
}
void collect(Trainer& trainer) { trainer.optimizer.full_state_dict(); }
void average(Trainer& trainer) {
  std::vector<float>& gradient = trainer.model.tensors[0].gradient;
  trainer.communicator.average({{gradient.data(), static_cast<std::int64_t>(gradient.size())}});
}

struct Case {
  const char* name;
  Call usual, other;  ///< of ranks 0 and 2, and of rank 1
  std::vector<std::string> parts;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case> cases{
    {"save",
     step,
     save_checkpoint,
     {"rank 1 is in all_gather", ", saving a checkpoint)", "ranks 0 and 2 are in all_gather",
      ", step 2)"}},
    {"full_state_dict",
     step,
     collect,
     {"rank 1 is in all_gather", ", collecting the state)", "ranks 0 and 2 are in all_gather",
      ", step 2)"}},
    {"average",
     step,
     average,
     {"rank 1 is in all_to_all", ", average)", "ranks 0 and 2 are in all_gather", ", step 2)"}},
    {"step",
     average,
     step,
     {"rank 1 is in all_gather", ", step 2)", "ranks 0 and 2 are in all_to_all", ", average)"}},
};

class MismatchedCalls : public testing::TestWithParam<Case> {};

std::string error_of_rank(Communicator& communicator) {
  Trainer trainer(communicator);
  trainer.optimizer.step();
  const Case& c = MismatchedCalls::GetParam();
  return error_of<CommunicationError>(
      [&] { (communicator.rank() == 1 ? c.other : c.usual)(trainer); });
}

void expect_both_calls(const Messages& messages) {
  for (const std::string& message : messages)
    for (const std::string& part : MismatchedCalls::GetParam().parts)
      EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
}

TEST_P(MismatchedCalls, AreNamedOnAllThreads) {
  Messages messages;
  run_ranks(ranks, [&](Communicator& communicator) {
    messages[communicator.rank()] = error_of_rank(communicator);
  });
  expect_both_calls(messages);
}

TEST_P(MismatchedCalls, AreNamedOnAllRanksOverGlooLongBeforeTheDeadline) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  const auto store = std::make_shared<MemoryStore>();
  Messages messages;
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto communicator = gloo_communicator(
            {.rank = rank, .size = ranks, .local_rank = rank}, store, {.deadline = 10min});
        messages[rank] = error_of_rank(*communicator);
      });
  }
  expect_both_calls(messages);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1min);
}

INSTANTIATE_TEST_SUITE_P(Of, MismatchedCalls, testing::ValuesIn(cases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace shampoo::test
