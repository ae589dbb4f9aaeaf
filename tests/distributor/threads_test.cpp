// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "distributor/communicator.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

using std::chrono::milliseconds;

TEST(RunRanks, RethrowsTheFirstExceptionAndEndsTheOthers) {
  std::atomic<int> ended = 0;
  try {
    run_ranks(4, [&](Communicator& ranks) {
      if (ranks.rank() == 2) throw std::out_of_range("no such image");
      const std::string message = error_of<CommunicationError>([&] { ranks.barrier().wait(); });
      EXPECT_NE(message.find("rank 2 threw: no such image"), std::string::npos) << message;
      EXPECT_EQ(error_of<CommunicationError>([&] { ranks.barrier().wait(); }), message)
          << "the failure stays";
      EXPECT_EQ(ranks.failure(), message);
      ++ended;
    });
    FAIL() << "must throw";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "no such image");
  }
  EXPECT_EQ(ended, 3);
}

TEST(RunRanks, EndsRanksThatWaitForOneThatHasReturned) {
  run_ranks(3, [](Communicator& ranks) {
    ranks.barrier().wait();
    if (ranks.rank() == 0) return;
    try {
      ranks.barrier().wait();
      ADD_FAILURE() << "rank 0 never comes";
    } catch (const CommunicationError& error) {
      EXPECT_EQ(error.missing_ranks(), std::vector<int>{0}) << error.what();
      EXPECT_NE(std::string(error.what()).find("rank 0 has left"), std::string::npos)
          << error.what();
    }
  });
}

TEST(RunRanks, RefusesBadNumbers) {
  EXPECT_THROW(run_ranks(0, [](Communicator&) {}), std::invalid_argument);
  EXPECT_THROW(run_ranks(1025, [](Communicator&) {}), std::invalid_argument);
}

TEST(Threads, NameTheRanksThatMissTheDeadline) {
  std::atomic<int> given_up = 0;
  run_ranks(4, [&](Communicator& ranks) {
    ranks.set_deadline(milliseconds(200));
    if (ranks.rank() % 2 == 1) {
      while (given_up < 2) std::this_thread::yield();
      // Late, it fails as cleanly as the others.
      EXPECT_NE(error_of<CommunicationError>([&] { ranks.barrier().wait(); }), "");
      return;
    }
    try {
      ranks.barrier().wait();
      ADD_FAILURE() << "ranks 1 and 3 are late";
    } catch (const CommunicationError& error) {
      EXPECT_EQ(error.missing_ranks(), (std::vector<int>{1, 3}));
      EXPECT_NE(std::string(error.what()).find("barrier"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("ranks 1 and 3 did not take part within 0.2 s"),
                std::string::npos)
          << error.what();
    }
    ++given_up;
  });
}

TEST(Threads, AbortReachesRanksThatWait) {
  run_ranks(3, [](Communicator& ranks) {
    if (ranks.rank() == 1) {
      // From another thread, as a watchdog does it.
      std::thread([&] { ranks.abort("the loss is not finite"); }).join();
      EXPECT_NE(error_of<CommunicationError>([&] { ranks.barrier().wait(); }), "");
      return;
    }
    const std::string message = error_of<CommunicationError>([&] { ranks.barrier().wait(); });
    EXPECT_NE(message.find("rank 1 aborted: the loss is not finite"), std::string::npos) << message;
  });
}

TEST(Threads, RefuseCollectivesThatDoNotFitInsteadOfMixingBytes) {
  run_ranks(3, [](Communicator& ranks) {
    std::vector<char> bytes(30);
    const std::vector<std::int64_t> counts(3, ranks.rank() == 1 ? 2 : 10);
    EXPECT_NE(error_of<CommunicationError>([&] { ranks.all_gather(bytes.data(), counts).wait(); }),
              "");
  });
  run_ranks(2, [](Communicator& ranks) {
    char byte = 0;
    EXPECT_NE(error_of<CommunicationError>([&] {
                if (ranks.rank() == 0)
                  ranks.barrier().wait();
                else
                  ranks.broadcast(&byte, 1, 0).wait();
              }),
              "");
  });
}

TEST(Threads, EndAllRanksAtOnceWhereOneIsSentAnotherNumberOfBytes) {
  run_ranks(3, [](Communicator& ranks) {
    std::vector<float> numbers(4);
    const std::string message = error_of<CommunicationError>([&] {
      for (int i = 0; i < 2; ++i)
        ranks.all_reduce(numbers.data(), ranks.rank() == 1 ? 4 : 3, Type::float32);
    });
    EXPECT_NE(message.find("rank 1 is in all_to_all of 16 bytes (collective 1, all_reduce), "),
              std::string::npos)
        << message;
  });
}

TEST(RunRanks, RethrowsTheCauseThoughOthersHearOfItFirst) {
  for (int repeat = 0; repeat < 50; ++repeat)
    EXPECT_THROW(run_ranks(3,
                           [](Communicator& ranks) {
                             const auto part = ranks.split(0, 0);
                             if (ranks.rank() == 1) throw std::out_of_range("the cause");
                             part->barrier().wait();
                           }),
                 std::out_of_range);
}

TEST(Threads, RefuseBadArgumentsOnOneRankWithoutTheOthers) {
  run_ranks(2, [](Communicator& ranks) {
    char byte = 0;
    EXPECT_THROW((void)ranks.broadcast(&byte, 1, 2), std::invalid_argument);
    EXPECT_THROW((void)ranks.broadcast(&byte, -1, 0), std::invalid_argument);
    EXPECT_THROW((void)ranks.all_gather(&byte, std::vector<std::int64_t>{1}),
                 std::invalid_argument);
    EXPECT_THROW((void)ranks.all_gather(&byte, std::vector<std::int64_t>{1, -1}),
                 std::invalid_argument);
    const TensorSpan odd{&byte, 1, static_cast<Type>(9)};
    EXPECT_THROW(ranks.broadcast({odd}), std::invalid_argument);
    EXPECT_THROW(ranks.average({odd}), std::invalid_argument);
    EXPECT_THROW(ranks.set_deadline(milliseconds(0)), std::invalid_argument);
    EXPECT_THROW(ranks.set_deadline(milliseconds::max()), std::invalid_argument);
    ranks.barrier().wait();
  });
}

TEST(Threads, SplitIntoCommunicatorsThatWorkAtTheSameTimeAndOutliveEachOther) {
  run_ranks(5, [](Communicator& ranks) {
    // Colors 0 and 1 in reversed order; rank 4 belongs to none.
    const int color = ranks.rank() == 4 ? -1 : ranks.rank() % 2;
    const auto part = ranks.split(color, -ranks.rank());
    if (color < 0) {
      EXPECT_EQ(part, nullptr);
    } else {
      EXPECT_EQ(part->size(), 2);
      EXPECT_EQ(part->rank(), ranks.rank() >= 2 ? 0 : 1);
      std::int64_t sum = ranks.rank();
      double number = ranks.rank();
      for (int i = 0; i < 10; ++i) part->all_reduce(&number, 1, Type::float64);
      sum = color == 0 ? 2 : 4;
      EXPECT_EQ(number, static_cast<double>(sum * 512));
    }
    ranks.barrier().wait();
  });
}

TEST(Sums, AreTakenInTheOrderOfTheRanksAndRoundedOnce) {
  // 2^24 + 1 + 1 in float32 is 2^24 in this order and 2^24 + 2 in the other.
  run_ranks(3, [](Communicator& ranks) {
    float number = ranks.rank() == 0 ? 0x1p24f : 1;
    ranks.all_reduce(&number, 1, Type::float32);
    EXPECT_EQ(number, 0x1p24f);
    float reversed = ranks.rank() == 2 ? 0x1p24f : 1;
    ranks.all_reduce(&reversed, 1, Type::float32);
    EXPECT_EQ(reversed, 0x1p24f + 2);
    // 256 + 1 + 1 in bfloat16 rounds to 256 at every step, once rounded it is 258.
    std::uint16_t narrow = ranks.rank() == 0 ? 0x4380 : 0x3f80;
    ranks.all_reduce(&narrow, 1, Type::bfloat16);
    EXPECT_EQ(narrow, 0x4381);
  });
}

TEST(Average, IsTheMeanOfTensorsOfAllTypesAndSizesInOneCall) {
  for (const int count : {1, 2, 3, 7})
    run_ranks(count, [&](Communicator& ranks) {
      const int r = ranks.rank();
      std::vector<float> a(1000);
      std::vector<double> b(3);
      std::vector<float> c(1);
      for (std::size_t i = 0; i < a.size(); ++i)
        a[i] = static_cast<float>(i) + static_cast<float>(r);
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = r * 0.5;
      c[0] = static_cast<float>(r);
      ranks.average({{a.data(), 1000, Type::float32},
                     {b.data(), 3, Type::float64},
                     {nullptr, 0, Type::float32},
                     {c.data(), 1, Type::float32}});
      const double mean = (count - 1) / 2.0;
      EXPECT_EQ(a[999], 999 + static_cast<float>(mean));
      EXPECT_EQ(b[2], mean / 2);
      EXPECT_EQ(c[0], static_cast<float>(mean));
    });
}

TEST(Average, SendsLargeTensorsInSeveralRounds) {
  run_ranks(2, [](Communicator& ranks) {
    std::vector<float> large(std::size_t{20} << 20), small(5);  // 80 MiB
    for (std::size_t i = 0; i < large.size(); ++i)
      large[i] = static_cast<float>(i % 1000) * static_cast<float>(1 + 2 * ranks.rank());
    small.assign(5, static_cast<float>(ranks.rank()));
    ranks.average(std::vector<TensorSpan>{
        {small.data(), 5, Type::float32},
        {large.data(), static_cast<std::int64_t>(large.size()), Type::float32}});
    for (std::size_t i = 0; i < large.size(); ++i)
      ASSERT_EQ(large[i], static_cast<float>(i % 1000) * 2) << i;
    EXPECT_EQ(small[4], 0.5F);
  });
}

TEST(ReduceScatter, GivesEveryRankItsPartOfTheSumEmptyOnesToo) {
  run_ranks(3, [](Communicator& ranks) {
    const std::vector<std::int64_t> counts{2, 0, 3};
    std::vector<double> all{1, 2, 3, 4, 5}, own(3, -1);
    for (double& x : all) x *= 1 + ranks.rank();
    ranks.reduce_scatter(all.data(), own.data(), counts, Type::float64);
    const std::vector<std::vector<double>> expected = {{6, 12, -1}, {-1, -1, -1}, {18, 24, 30}};
    EXPECT_EQ(own, expected[static_cast<std::size_t>(ranks.rank())]);
  });
}

}  // namespace
}  // namespace shampoo::test
