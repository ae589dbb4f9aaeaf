// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/job_store.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <exception>
#include <future>
#include <thread>

#include "distributor/rendezvous/join.h"
#include "distributor/store/socket.h"
#include "distributor/transports/gloo/gloo.h"
#include "kernels/backend.h"

namespace shampoo::rendezvous {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

Detected rank_0_at(std::uint16_t port) {
  return {.start = Start::given, .size = 2, .local_size = 2, .host = "127.0.0.1", .port = port};
}

std::vector<store::Socket> take_a_port() {
  return store::listen_on(0, store::resolve("127.0.0.1", 0));
}

TEST(JobStores, OfOneProcessAtOnePlaceAreOne) {
  const Detected detected = rank_0_at(store::port_of(take_a_port().front()));
  auto first = open_store(detected, Clock::now() + 20s);
  auto second = open_store(detected, Clock::now() + 20s);
  ASSERT_NE(second->server, nullptr);
  EXPECT_EQ(second->server, first->server);
  first->client->set("key", "value");
  first.reset();
  EXPECT_EQ(second->client->get("key"), "value");
  second.reset();
  EXPECT_EQ(open_store(detected, Clock::now() + 20s)->client->get("key"), std::nullopt);
}

TEST(JobStores, AreServedOnceThePortIsFree) {
  std::vector<store::Socket> taken = take_a_port();
  const Detected detected = rank_0_at(store::port_of(taken.front()));
  auto opened =
      std::async(std::launch::async, [&] { return open_store(detected, Clock::now() + 20s); });
  pollfd client{taken.front().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&client, 1, 20'000), 1) << "rank 0 looks whether this is a store";
  taken.clear();
  EXPECT_NE(opened.get()->server, nullptr);
}

TEST(JobStores, NameAPortThatIsNoStores) {
  const std::vector<store::Socket> taken = take_a_port();
  const std::uint16_t port = store::port_of(taken.front());
  try {
    open_store(rank_0_at(port), Clock::now() + 50ms);
    FAIL() << "must throw";
  } catch (const CommunicationError& error) {
    EXPECT_NE(std::string(error.what()).find("port " + std::to_string(port) + " is in use on this"),
              std::string::npos)
        << error.what();
  }
}

TEST(JobStores, OutliveTheCommunicatorThatIsReplaced) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  constexpr int size = 2;
  const std::uint16_t port = store::port_of(take_a_port().front());
  std::array<std::exception_ptr, size> errors;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto backend = cpu_backend();
        const JoinOptions options{.rank = rank,
                                  .size = size,
                                  .host = "127.0.0.1",
                                  .port = port,
                                  .connect_deadline = 20s,
                                  .deadline = 5s};
        std::shared_ptr<Communicator> ranks = join(*backend, options);
        ranks = join(*backend, options);
        ranks->barrier().wait();
        ranks->split(0, rank)->barrier().wait();
      } catch (...) {
        errors.at(static_cast<std::size_t>(rank)) = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    EXPECT_NO_THROW(if (error) std::rethrow_exception(error));
}

}  // namespace
}  // namespace shampoo::rendezvous
