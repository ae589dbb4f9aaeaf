// SPDX-License-Identifier: Apache-2.0
// Who is served where the job has a secret.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "distributor/communicator.h"
#include "distributor/store/proof.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "distributor/system/hmac.h"
#include "distributor/system/network_address.h"
#include "distributor/system/socket_owner.h"
#include "tests/distributor/store/raw_client.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

const std::string secret = "a secret of this job", other_secret = "a secret of another job";

std::string why_not(const StoreServer& server, const std::string& used) {
  try {
    connect_store("127.0.0.1", server.port(), 1s, StoreProtocol::automatic, used);
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "";
}

// RFC 4231, test cases 1, 2, 3, 6 and 7.
TEST(Hmac, IsThatOfTheStandard) {
  EXPECT_EQ(hexadecimal(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hexadecimal(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hexadecimal(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(hexadecimal(hmac_sha256(std::string(131, '\xaa'),
                                    "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(
      hexadecimal(hmac_sha256(
          std::string(131, '\xaa'),
          "This is a test using a larger than block-size key and a larger than block-size data. "
          "The key needs to be hashed before being used by the HMAC algorithm.")),
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Secret, IsProvedByBothSides) {
  const StoreServer server({.secret = secret});
  const auto store =
      connect_store("127.0.0.1", server.port(), 20s, StoreProtocol::automatic, secret);
  store->set("/x", "1");
  EXPECT_EQ(store->get("/x"), "1");
  EXPECT_EQ(store->add("/n", 2), 2);
}

TEST(Secret, IsNeededByClients) {
  const StoreServer server({.secret = secret});
  EXPECT_NE(why_not(server, "").find("SHAMPOO_JOB_SECRET"), std::string::npos)
      << why_not(server, "");
  EXPECT_NE(why_not(server, other_secret).find("does not prove the job's secret"),
            std::string::npos)
      << why_not(server, other_secret);
}

TEST(Secret, IsNeededByServers) {
  const StoreServer open, other({.secret = other_secret});
  for (const StoreServer* server : {&open, &other})
    EXPECT_NE(why_not(*server, secret).find("does not prove the job's secret"), std::string::npos)
        << why_not(*server, secret);
}

TEST(Secret, HasAtLeast16Bytes) {
  EXPECT_THROW(StoreServer({.secret = "123456789012345"}), std::invalid_argument);
  EXPECT_THROW(connect_store("localhost", 1, 1s, StoreProtocol::automatic, "short"),
               std::invalid_argument);
}

TEST(Secret, LetsNothingChangeBeforeItIsProved) {
  const StoreServer server({.secret = secret});
  const auto ours = connect_store("127.0.0.1", server.port(), 20s, StoreProtocol::torch_2, secret);
  ours->set("k", "ours");
  for (const std::string& request :
       {bytes("00 L(1) 'k' L(1) 'x'"), bytes("06"), validate() + bytes("01 L(1) 'k' L(1) 'x'"),
        validate() + bytes("03 L(1) 'k'"), validate() + bytes("0D") + "abcd",
        validate() + bytes("82 L(1) 'k'"), validate() + "\x81" + std::string(32, 'p'),
        validate() + "\x80" + std::string(32, 'c') + bytes("01 L(1) 'k' L(1) 'x'")}) {
    RawClient client(server.port());
    client.send(request);
    const std::string reply = client.receive(200);
    EXPECT_LE(reply.size(), 64U) << "the answer to a challenge at most";
    EXPECT_EQ(reply.find("ours"), std::string::npos);
  }
  EXPECT_EQ(ours->get("k"), "ours");
}

TEST(Secret, TakesEachProofOnce) {
  const StoreServer server({.secret = secret});
  const std::string challenge(32, 'c');
  const auto proof_after = [&](RawClient& client) {
    client.send(validate() + "\x80" + challenge);
    const std::string reply = client.receive(64);
    EXPECT_EQ(reply.substr(32), store::server_proof(secret, challenge + reply.substr(0, 32)));
    return "\x81" + store::client_proof(secret, challenge + reply.substr(0, 32));
  };
  RawClient first(server.port()), second(server.port());
  const std::string proof = proof_after(first);
  first.send(proof);
  EXPECT_EQ(first.receive(1), bytes("00"));
  proof_after(second);
  second.send(proof);
  EXPECT_TRUE(second.is_closed());
  first.send(proof);
  EXPECT_TRUE(first.is_closed());
}

TEST(Secret, IsNotNeededByProcessesOfTheSameUser) {
  const StoreServer server(
      {.host = "localhost", .several_hosts = false, .secret = secret, .trusts_same_user = true});
  const auto plain = connect_store(server.own_address(), server.port(), 20s);
  plain->set("/x", "1");
  const auto proved =
      connect_store(server.own_address(), server.port(), 20s, StoreProtocol::automatic, secret);
  EXPECT_EQ(proved->get("/x"), "1");
}

TEST(Secret, IsNeededByProcessesOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const StoreServer server(
      {.host = "localhost", .several_hosts = false, .secret = secret, .trusts_same_user = true});
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t nobody = 65'534;
    if (::setuid(nobody) != 0) ::_exit(2);
    RawClient client(server.port());
    client.send(validate() + bytes("01 L(1) 'k' L(1) 'x' 07"));
    ::_exit(client.is_closed() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto ours = connect_store(server.own_address(), server.port(), 20s);
  EXPECT_EQ(ours->get("k"), std::nullopt);
}

TEST(Secret, IsNeededWhereTheKernelKnowsNoOpenSocketOfTheClient) {
  const auto listeners = store::listen_on(0, store::own_addresses("127.0.0.1", false));
  const auto address = store::resolve("127.0.0.1", store::port_of(listeners.front())).front();
  auto client = store::connect_to(address, store::after(20s));
  const UniqueFd served(::accept(listeners.front().get(), nullptr, nullptr));
  EXPECT_TRUE(is_peer_same_user(served.get()));
  client.reset();
  EXPECT_FALSE(is_peer_same_user(served.get())) << "it counts as root's once it is closed";
}

TEST(Secret, ComesFromTheEnvironmentOrAFile) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("secret_" + std::to_string(::getpid()));
  std::ofstream(path) << "  " << secret << "\n";
  EXPECT_EQ(store::job_secret(Environment{}), "");
  EXPECT_EQ(store::job_secret(Environment{{"SHAMPOO_JOB_SECRET", secret}}), secret);
  EXPECT_EQ(store::job_secret(Environment{{"SHAMPOO_JOB_SECRET_FILE", path}}), secret);
  for (const Environment& refused :
       {Environment{{"SHAMPOO_JOB_SECRET", "short"}},
        Environment{{"SHAMPOO_JOB_SECRET", secret}, {"SHAMPOO_JOB_SECRET_FILE", path}},
        Environment{{"SHAMPOO_JOB_SECRET_FILE", path + ".absent"}},
        Environment{{"SHAMPOO_JOB_SECRET_FILE", "/"}},
        Environment{{"SHAMPOO_JOB_SECRET_FILE", "/dev/null"}}})
    EXPECT_THROW(store::job_secret(refused), std::invalid_argument);
  std::filesystem::remove(path);
  EXPECT_EQ(store::new_job_secret().size(), 64U);
  EXPECT_NE(store::new_job_secret(), store::new_job_secret());
}

}  // namespace
}  // namespace shampoo::test
