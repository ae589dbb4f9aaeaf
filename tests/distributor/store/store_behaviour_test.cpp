// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ostream>
#include <thread>

#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "tests/support/memory_store.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

/// What all stores have in common.
struct Kind {
  std::string name;
  std::optional<StoreProtocol> protocol;  ///< empty: in memory
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

class AnyStore : public testing::TestWithParam<Kind> {
 protected:
  /// One for each thread, which all see the same keys.
  Store& store() {
    if (!GetParam().protocol) return memory_;
    clients_.push_back(connect_store("localhost", server_.port(), 20s, *GetParam().protocol));
    return *clients_.back();
  }

 private:
  MemoryStore memory_;
  StoreServer server_;
  std::vector<std::unique_ptr<Store>> clients_;
};

TEST_P(AnyStore, GivesBackWhatWasSet) {
  Store& writer = store();
  Store& reader = store();
  const std::string zeros("\0a\0", 3), large((std::size_t{1} << 20) + 7, 'x');
  writer.set("/a", "one");
  writer.set("/a", "two");
  writer.set("/empty", "");
  writer.set(zeros, zeros);
  writer.set("/large", large);

  EXPECT_EQ(reader.get("/a"), "two");
  EXPECT_EQ(reader.get("/empty"), "");
  EXPECT_EQ(reader.get(zeros), zeros);
  EXPECT_EQ(reader.get("/large"), large);
  EXPECT_EQ(reader.get("/none"), std::nullopt);
}

TEST_P(AnyStore, SetsIfAbsent) {
  Store& one = store();
  Store& other = store();
  EXPECT_EQ(one.set_if_absent("/a", "1"), "1");
  EXPECT_EQ(other.set_if_absent("/a", "2"), "1");
  EXPECT_EQ(one.get("/a"), "1");
}

TEST_P(AnyStore, RemovesOnce) {
  Store& keys = store();
  keys.set("/a", "1");
  EXPECT_TRUE(keys.remove("/a"));
  EXPECT_FALSE(keys.remove("/a"));
  EXPECT_EQ(keys.get("/a"), std::nullopt);
}

TEST_P(AnyStore, CountsForAllThreads) {
  constexpr int threads = 4, each = 50;
  std::vector<std::thread> running;
  running.reserve(threads);
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&one = store()] {
      for (int i = 0; i < each; ++i) one.add("/n", 3);
    });
  for (std::thread& thread : running) thread.join();

  EXPECT_EQ(store().add("/n", -1), 3 * threads * each - 1);
  EXPECT_EQ(store().get("/n"), std::to_string(3 * threads * each - 1));
}

TEST_P(AnyStore, WaitsForAllKeys) {
  Store& waiting = store();
  Store& setting = store();
  const std::vector<std::string> keys{"/a", "/b"};
  setting.set("/a", "");
  EXPECT_FALSE(waiting.wait(keys, 0ms));
  EXPECT_FALSE(waiting.wait(keys, 5ms));

  std::thread later([&] { setting.set("/b", ""); });
  EXPECT_TRUE(waiting.wait(keys, 60s));
  later.join();
  EXPECT_TRUE(waiting.wait(keys, 0ms));
  EXPECT_TRUE(waiting.wait({}, 0ms));
}

INSTANTIATE_TEST_SUITE_P(Of, AnyStore,
                         testing::Values(Kind{"memory", std::nullopt},
                                         Kind{"torch_1", StoreProtocol::torch_1},
                                         Kind{"torch_2", StoreProtocol::torch_2},
                                         Kind{"automatic", StoreProtocol::automatic}),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace shampoo::test
