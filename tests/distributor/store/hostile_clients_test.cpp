// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "distributor/system/unique_fd.h"
#include "tests/distributor/store/raw_client.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

void expect_service(const StoreServer& server) {
  for (const StoreProtocol protocol : {StoreProtocol::torch_1, StoreProtocol::torch_2}) {
    const auto store = connect_store("127.0.0.1", server.port(), 30s, protocol);
    store->set("/well behaved", "yes");
    EXPECT_EQ(store->get("/well behaved"), "yes");
  }
}

TEST(HostileClients, LeaveHalfRequestsWhileOthersAreServed) {
  const StoreServer server;
  std::vector<std::unique_ptr<RawClient>> stalled;
  for (const std::string& whole :
       {bytes("00 CE F7 85 3C"), validate() + bytes("0B L(2) L(1) 'a' L(1) '1' L(1) 'b' L(1) '2'"),
        bytes("01 L(2) '/c' L(0) L(2) 'v1'")})
    for (std::size_t size = 1; size < whole.size(); ++size) {
      stalled.push_back(std::make_unique<RawClient>(server.port()));
      stalled.back()->send(std::string_view(whole).substr(0, size));
    }

  expect_service(server);
  stalled.clear();
  expect_service(server);
}

TEST(HostileClients, AnnounceGiantLengths) {
  const StoreServer server;
  const std::size_t before = resident_bytes();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 20; ++i)
    for (const char* length :
         {"L(4611686018427387904)", "L(-1)", "L(1073741824)", "L(8388608)", "L(131072)"})
      for (const std::string& begin :
           {bytes("02"), bytes("04"), validate() + bytes("01 L(0)"), validate() + bytes("0B")}) {
        clients.push_back(std::make_unique<RawClient>(server.port()));
        clients.back()->send(begin + bytes(length));
      }

  expect_service(server);
  EXPECT_LT(resident_bytes(), before + 64 * mebibyte);
}

TEST(HostileClients, LookForOtherServices) {
  const StoreServer server;
  for (const std::string_view begin :
       {"GET / HTTP/1.0\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\r\n\r\n", "EHLO there\r\n",
        "\x16\x03\x01\x02", "HELP\r\n", "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01", ""}) {
    RawClient client(server.port());
    client.send(begin);
  }
  expect_service(server);
}

TEST(HostileClients, SendRandomBytes) {
  const StoreServer server;
  const std::size_t before = resident_bytes();
  std::mt19937 random(7);
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
  for (int stream = 0; stream < 3000; ++stream) {
    std::string sent = below(2) ? validate() : "";
    // Small numbers are likely: else few requests would be well-formed.
    for (unsigned left = below(200); left > 0; --left)
      sent.push_back(static_cast<char>(below(3) ? below(2) : below(256)));
    RawClient client(server.port());
    client.send(sent);
  }
  expect_service(server);
  EXPECT_LT(resident_bytes(), before + 128 * mebibyte);
}

TEST(HostileClients, ConnectAThousandTimes) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_cur < 2100) GTEST_SKIP() << "a process may open only " << files.rlim_cur;

  const StoreServer server;
  std::vector<std::unique_ptr<RawClient>> clients;
  clients.reserve(1000);
  for (int i = 0; i < 1000; ++i) clients.push_back(std::make_unique<RawClient>(server.port()));
  for (const auto& client : clients) client->send(bytes("06"));
  int served = 0;
  for (const auto& client : clients) served += client->receive(8) == bytes("L(0)");

  EXPECT_EQ(served, 1000);
  expect_service(server);
}

/// Restores how many files the process may open.
class FewFiles {
 public:
  explicit FewFiles(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{most, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;
  FewFiles(FewFiles&&) = delete;
  FewFiles& operator=(FewFiles&&) = delete;

 private:
  rlimit before_{};
};

/// After a few requests the server has looked at all that came before the first.
void expect_answers(RawClient& client, const std::string& keys) {
  for (int i = 0; i < 4; ++i) {
    client.send(bytes("06"));
    EXPECT_EQ(client.receive(8), bytes(keys));
  }
}

TEST(HostileClients, UseUpAllDescriptorsAndAreServedLater) {
  const StoreServer server;
  RawClient first(server.port());
  expect_answers(first, "L(0)");
  std::vector<UniqueFd> others;
  std::unique_ptr<RawClient> late;
  {
    const FewFiles few(100);
    do others.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    while (others.back());
    others.resize(others.size() - 2);  // room for the test's end of a connection, not the server's
    late = std::make_unique<RawClient>(server.port());
    late->send(bytes("06"));
    expect_answers(first, "L(0)");
    others.clear();
    EXPECT_EQ(late->receive(8), bytes("L(0)"));
  }
  expect_service(server);
}

}  // namespace
}  // namespace shampoo::test
