// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/report_gather.h"

#include <gtest/gtest.h>

#include <array>
#include <new>

#include "tests/support/counting_backend.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/thrown.h"

namespace shampoo::checkpoint::test {
namespace {

using shampoo::test::CountingBackend;
using shampoo::test::error_of;

/// Without memory where it is told.
class PoorBackend final : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  void* allocate(std::size_t bytes) override {
    if (poor) throw std::bad_alloc();
    return CountingBackend::allocate(bytes);
  }
  void upload(void* to, const void* from_host, std::size_t bytes) override {
    if (fails) throw std::bad_alloc();
    CountingBackend::upload(to, from_host, bytes);
  }
  bool poor = false, fails = false;
};

std::string text_of(int rank) {
  std::string text(static_cast<std::size_t>(rank) * 700000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + rank);
  return text;
}

std::vector<std::int64_t> lengths_of(int ranks) {
  std::vector<std::int64_t> lengths;
  for (int rank = 0; rank < ranks; ++rank) lengths.push_back(std::ssize(text_of(rank)));
  return lengths;
}

TEST(AReportGather, SendsAllTextsToRank0AndAllocatesNothingOnTheWay) {
  for (const int ranks : {1, 2, 4})
    run_ranks(ranks, [&](Communicator& communicator) {
      const auto kernels = shampoo::test::cpu_kernels({.threads = 1});
      PoorBackend backend(*kernels);
      ReportGather gather(backend, communicator);
      backend.poor = true;
      const auto texts = gather.run(text_of(communicator.rank()), lengths_of(ranks));
      ASSERT_EQ(texts.size(), static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(texts[static_cast<std::size_t>(rank)],
                  communicator.rank() == 0 ? text_of(rank) : "")
            << rank;
    });
}

TEST(AReportGather, ThatFailsOnOneRankFailsOnAll) {
  std::array<std::string, 3> messages;
  run_ranks(3, [&](Communicator& communicator) {
    const auto kernels = shampoo::test::cpu_kernels({.threads = 1});
    PoorBackend backend(*kernels);
    ReportGather gather(backend, communicator);
    backend.fails = communicator.rank() == 1;
    messages[static_cast<std::size_t>(communicator.rank())] = error_of<CommunicationError>(
        [&] { gather.run(text_of(communicator.rank()), lengths_of(3)); });
  });
  for (const std::string& message : messages)
    EXPECT_NE(message.find("its part of a manifest: std::bad_alloc"), std::string::npos) << message;
}

}  // namespace
}  // namespace shampoo::checkpoint::test
