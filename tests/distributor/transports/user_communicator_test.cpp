// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "distributor/call_record.h"
#include "distributor/communicator.h"
#include "tests/distributor/transports/mismatch.h"

namespace shampoo::test {
namespace {

using Counts = std::vector<std::int64_t>;

/// One rank, of which everything is there that must be, in host memory.
Collectives one() {
  return {.all_gather = [](void*, std::span<const std::int64_t>, const CallContext&) {}};
}

std::string communication_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "none";
}

std::string refusal(Collectives collectives) {
  try {
    user_communicator(std::move(collectives));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(ACallback, ThatThrowsFailsTheCommunicatorInItsOwnWords) {
  Collectives calls = one();
  calls.broadcast = [](void*, std::int64_t, int, const CallContext&) {
    throw std::runtime_error("the wire is cut");
  };
  const auto ranks = user_communicator(calls);
  char data = 0;

  const std::string error = communication_error([&] { (void)ranks->broadcast(&data, 1, 0); });

  EXPECT_NE(error.find("broadcast (collective 1): the wire is cut"), std::string::npos) << error;
  EXPECT_EQ(communication_error([&] { (void)ranks->barrier(); }), error);
  EXPECT_EQ(ranks->failure(), error);
}

TEST(ACallback, ThatThrowsNoExceptionFailsTheCommunicatorToo) {
  Collectives calls = one();
  calls.barrier = [](const CallContext&) { throw 7; };
  const auto ranks = user_communicator(calls);

  const std::string error = communication_error([&] { (void)ranks->barrier(); });

  EXPECT_NE(error.find("an object that is not a std::exception"), std::string::npos) << error;
}

TEST(ACallback, KeepsTheMissingRanksOfItsError) {
  Collectives calls = one();
  calls.barrier = [](const CallContext&) { throw CommunicationError("gone", {3}); };
  const auto ranks = user_communicator(calls);

  try {
    (void)ranks->barrier();
    FAIL() << "threw nothing";
  } catch (const CommunicationError& error) {
    EXPECT_EQ(error.missing_ranks(), std::vector<int>{3});
  }
}

TEST(ACallback, ReceivesTheDeadlineAndTheStream) {
  Collectives calls = one();
  CallContext received;
  calls.barrier = [&](const CallContext& context) { received = context; };
  const auto ranks = user_communicator(calls);
  ranks->set_deadline(std::chrono::milliseconds(1234));
  int stream = 0;

  ranks->barrier({.stream = {&stream}}).wait();

  EXPECT_EQ(received.deadline, std::chrono::milliseconds(1234));
  EXPECT_EQ(received.stream.handle, &stream);
}

TEST(ACallback, ForSplittingMayBeMissingUntilItIsNeeded) {
  const auto ranks = user_communicator(one());

  EXPECT_THROW(ranks->split(0, 0), std::invalid_argument);
  EXPECT_NO_THROW(ranks->barrier().wait()) << "a split that is refused breaks nothing";
}

TEST(ACallback, ForAbortingIsReachedOnceWithTheReason) {
  Collectives calls = one();
  std::vector<std::string> reasons;
  calls.abort = [&](std::string_view reason) { reasons.emplace_back(reason); };
  const auto ranks = user_communicator(calls);

  ranks->abort("enough of it");
  ranks->abort("enough again");

  EXPECT_EQ(reasons, std::vector<std::string>{"enough of it"});
  const std::string error = communication_error([&] { (void)ranks->barrier(); });
  EXPECT_NE(error.find("aborted: enough of it"), std::string::npos) << error;
}

TEST(ACallback, ForAbortingMayThrow) {
  Collectives calls = one();
  calls.abort = [](std::string_view) { throw 7; };
  const auto ranks = user_communicator(calls);

  ranks->abort("enough of it");

  EXPECT_NE(ranks->failure().find("enough of it"), std::string::npos) << ranks->failure();
}

/// Collectives over threads that send along what each rank calls.
Collectives careful(Communicator& host) {
  const auto compare = [&host](const CallContext& context) {
    std::vector<CallRecord> records(static_cast<std::size_t>(host.size()));
    records[host.rank()] = CallRecord(host.rank(), context.call);
    host.all_gather(records.data(), Counts(records.size(), sizeof(CallRecord))).wait();
    const std::string mismatch = describe_mismatch(records);
    if (!mismatch.empty()) throw std::runtime_error(mismatch);
  };
  return {.rank_info = {.rank = host.rank(), .size = host.size(), .local_rank = host.rank()},
          .all_gather = [&, compare](void* data, Communicator::Counts counts,
                                     const CallContext& context) {
            compare(context);
            host.all_gather(data, counts).wait();
          }};
}

TEST(UserMismatch, IsFoundByCallbacksThatCompareSignatures) {
  for (const Mismatch& mismatch : mismatches())
    run_ranks(3, [&](Communicator& host) {
      const auto ranks = user_communicator(careful(host));
      EXPECT_EQ(check_mismatch(*ranks, mismatch, std::chrono::seconds(30)), "") << mismatch.name;
    });
}

TEST(UserCollectives, AreRefusedWithTheNameOfTheField) {
  const auto expect = [](Collectives calls, const std::string& begin) {
    EXPECT_EQ(refusal(std::move(calls)).substr(0, begin.size()), begin);
  };
  expect({}, "all_gather: must be set");
  Collectives calls = one();
  calls.rank_info = {.rank = 2, .size = 2};
  expect(calls, "rank_info.rank: ");
  calls.rank_info = {.size = 0};
  expect(calls, "rank_info.size: ");
}

TEST(UserCollectives, NeedMoreOfThemInDeviceMemory) {
  Collectives calls = one();
  calls.rank_info.memory = MemoryKind::cuda;
  EXPECT_NE(refusal(calls).find("all_to_all: must be set"), std::string::npos) << refusal(calls);
  calls.all_to_all = [](const void*, std::span<const std::int64_t>, void*,
                        std::span<const std::int64_t>, const CallContext&) {};
  EXPECT_NE(refusal(calls).find("barrier: must be set"), std::string::npos) << refusal(calls);
  calls.barrier = [](const CallContext&) {};
  EXPECT_EQ(refusal(calls), "none");
}

TEST(UserCollectives, TellAllRanksOfCountsThatDoNotFitInTheSameCall) {
  constexpr int size = 3;
  std::vector<std::string> errors(size);
  ASSERT_NO_THROW(run_ranks(size, [&](Communicator& ranks) {
    ranks.set_deadline(std::chrono::seconds(20));
    Collectives calls{.rank_info = {ranks.rank(), size, ranks.rank()}};
    calls.all_gather = [&](void* everyone, std::span<const std::int64_t> counts,
                           const CallContext&) { ranks.all_gather(everyone, counts).wait(); };
    const auto own = user_communicator(calls);
    const Counts send(size, 2);
    Counts receive(size, 2);
    if (ranks.rank() == 2) receive[1] = 4;
    std::vector<char> from(8), to(8);
    errors[ranks.rank()] =
        communication_error([&] { own->all_to_all(from.data(), send, to.data(), receive).wait(); });
  }));
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("rank 1 sends 2 bytes to rank 2, which expects 4"), std::string::npos)
        << error;
  }
}

}  // namespace
}  // namespace shampoo::test
