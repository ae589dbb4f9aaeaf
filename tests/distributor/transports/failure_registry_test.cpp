// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/failure_registry.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "distributor/system/failure_timeout.h"
#include "tests/support/memory_store.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

TEST(TheGraceOfADeadline, IsAQuarterFromOneToTenSeconds) {
  EXPECT_EQ(grace_of(20s), 5s);
  EXPECT_EQ(grace_of(10min), 10s);
  EXPECT_EQ(grace_of(2s), 1s);
  EXPECT_EQ(grace_of(300ms), 300ms);
}

TEST(ALockedStore, LetsOthersInWhileAThreadWaitsAgainAndAgain) {
  LockedStore store(std::make_shared<MemoryStore>(), 20s);
  const std::vector<std::string> keys{"done"};
  int slices = 0;
  const std::jthread other([&] {
    std::this_thread::sleep_for(50ms);
    store.with([](Store& inner) { inner.set("done", ""); });
  });

  const auto wait = [&](Store& inner) { return inner.wait(keys, 20ms); };
  while (!store.with(wait) && slices < 100) ++slices;

  EXPECT_LT(slices, 100);
}

FailureRegistry registry(const std::shared_ptr<LockedStore>& store, int rank,
                         const char* server = "") {
  return {store, "test", server, rank, 2};
}

TEST(AFailureRegistry, WaitsForARankThatIsLateToSayItsWord) {
  const auto store = std::make_shared<LockedStore>(std::make_shared<MemoryStore>(), 20s);
  const std::jthread late([&] {
    std::this_thread::sleep_for(1500ms);  // a busy host
    registry(store, 1).judge("late", 20s);
  });

  const CommunicationError error = registry(store, 0).judge("early", 20s);

  EXPECT_TRUE(error.missing_ranks().empty()) << error.what();
  EXPECT_STREQ(error.what(), "early; all ranks answer");
}

TEST(AFailureRegistry, NamesTheRankThatSaysNothing) {
  const auto store = std::make_shared<LockedStore>(std::make_shared<MemoryStore>(), 1s);

  const CommunicationError error = registry(store, 0).judge("silence", 200ms);

  EXPECT_EQ(error.missing_ranks(), std::vector<int>{1});
}

/// Remembers the deadline of requests, and answers none.
class DeadStore final : public Store {
 public:
  void set(std::string_view, std::string_view) override { fail(); }
  std::optional<std::string> get(std::string_view) override { fail(); }
  std::int64_t add(std::string_view, std::int64_t) override { fail(); }
  bool remove(std::string_view) override { fail(); }
  bool wait(std::span<const std::string>, std::chrono::milliseconds) override { fail(); }
  void set_deadline(std::chrono::milliseconds deadline) override { now = deadline; }
  std::string description() const override { return "dead"; }

  std::chrono::milliseconds now{0}, when_asked{0};

 private:
  [[noreturn]] void fail() {
    when_asked = now;
    throw CommunicationError("closed the connection");
  }
};

TEST(AFailureRegistry, LeavesTheDeadlineOfAStoreThatFailsAsItWas) {
  const auto dead = std::make_shared<DeadStore>();
  const auto store = std::make_shared<LockedStore>(dead, 77s);

  registry(store, 0).post_abort("enough", 20s);
  EXPECT_EQ(dead->when_asked, 5s);
  EXPECT_EQ(dead->now, 77s);

  registry(store, 0).judge("a fault", 20s);
  EXPECT_GT(dead->when_asked, 0s);
  EXPECT_LE(dead->when_asked, 5s);
  EXPECT_EQ(dead->now, 77s);
}

TEST(AFailureRegistry, NamesWhoServedAStoreThatIsGone) {
  const auto store = std::make_shared<LockedStore>(std::make_shared<DeadStore>(), 1s);

  const std::string known = registry(store, 1, "rank 0 of the job").judge("a fault", 1s).what();
  const std::string unknown = registry(store, 1).judge("a fault", 1s).what();

  EXPECT_EQ(known,
            "a fault; nor does the store answer, whose process, rank 0 of the job, may be gone: "
            "closed the connection");
  EXPECT_EQ(unknown,
            "a fault; nor does the store answer, whose process may be gone: closed the connection");
}

}  // namespace
}  // namespace shampoo::test
