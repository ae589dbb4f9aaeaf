// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "distributor/communicator.h"
#include "distributor/store/socket.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "distributor/store/wire.h"
#include "tests/distributor/store/raw_client.h"
#include "tests/distributor/store/scripted_server.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

const std::string old_question = bytes("06");
const std::string new_question = bytes("00 CE F7 85 3C 07 07 07 07 05 L(1)") +
                                 store::Message().text(store::extension_key).bytes();
const Script::Line old_hands{old_question, bytes("L(0)")};
const Script::Line new_hands{new_question, bytes("L(0) L(0) L(0) L(0) 01")};

const Script closes{.closes = true};

/// The message of the CommunicationError; empty where there was none.
std::string complaint(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "";
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

std::unique_ptr<Store> connect(const ScriptedServer& server, StoreProtocol protocol) {
  return connect_store("127.0.0.1", server.port(), 20s, protocol);
}

TEST(ConnectStore, TakesAnAnswerForOneOfTorch2) {
  const ScriptedServer server({{.lines = {new_hands}}});
  const auto store = connect(server, StoreProtocol::automatic);
  EXPECT_EQ(store->description(),
            "127.0.0.1:" + std::to_string(server.port()) + ", protocol of torch 2.2 and later");
  EXPECT_EQ(server.connections(), 1);
}

TEST(ConnectStore, TakesAServerThatClosesForOneOfTorch1) {
  const ScriptedServer server(
      {{.lines = {{new_question, ""}}, .closes = true}, {.lines = {old_hands}}});
  const auto store = connect(server, StoreProtocol::automatic);
  EXPECT_EQ(store->description(),
            "127.0.0.1:" + std::to_string(server.port()) + ", protocol of torch up to 2.1");
  EXPECT_EQ(server.connections(), 2);
}

TEST(ConnectStore, TriesAgainWhereTheFirstRequestFailed) {
  for (const StoreProtocol protocol : {StoreProtocol::torch_1, StoreProtocol::torch_2}) {
    const Script answers{.lines = {protocol == StoreProtocol::torch_1 ? old_hands : new_hands}};
    const ScriptedServer server({closes, closes, answers});
    EXPECT_NE(connect(server, protocol), nullptr);
    EXPECT_EQ(server.connections(), 3);
  }
}

TEST(ConnectStore, NamesTheAddressWhereNobodyAnswers) {
  const ScriptedServer silent(std::vector<Script>(1)), closing(std::vector{closes});
  for (const ScriptedServer* server : {&silent, &closing})
    for (const StoreProtocol protocol :
         {StoreProtocol::automatic, StoreProtocol::torch_1, StoreProtocol::torch_2}) {
      const std::string text =
          complaint([&] { connect_store("127.0.0.1", server->port(), 200ms, protocol); });
      expect_part(text, "store 127.0.0.1:" + std::to_string(server->port()) +
                            ": no answer within 200 ms; the last attempt: ");
    }
}

TEST(ConnectStore, SaysWhatTheLastAttemptMet) {
  const std::uint16_t unused = StoreServer().port();
  expect_part(complaint([&] { connect_store("127.0.0.1", unused, 50ms); }), "Connection refused");
  expect_part(complaint([&] { connect_store("a host.invalid", 1, 1ms); }), "name lookup");
}

TEST(ConnectStore, SaysWhatItMetBeforeTheDeadlineCutAnAttemptOff) {
  const ScriptedServer server({closes, Script{}});
  const auto call = [&] { connect_store("127.0.0.1", server.port(), 2s, StoreProtocol::torch_2); };
  expect_part(complaint(call), "closed the connection");
  EXPECT_EQ(server.connections(), 2);
}

TEST(ConnectStore, NamesPlacesAsTheyAreWritten) {
  EXPECT_EQ(store::place_of("node1", 29500), "node1:29500");
  EXPECT_EQ(store::place_of("fe80::1", 7), "[fe80::1]:7");
}

TEST(ConnectStore, RefusesWhatIsNoAddress) {
  EXPECT_THROW(connect_store("", 1, 1s), std::invalid_argument);
  EXPECT_THROW(connect_store("localhost", 0, 1s), std::invalid_argument);
  EXPECT_THROW(connect_store("localhost", 1, 0s), std::invalid_argument);
}

TEST(TcpStore, NamesTheAddressOfAServerThatGoesSilent) {
  const ScriptedServer server({{.lines = {new_hands}}});
  const auto store = connect(server, StoreProtocol::torch_2);
  store->set_deadline(50ms);
  const std::string text = complaint([&] { store->add("/n", 1); });
  expect_part(text, "127.0.0.1:" + std::to_string(server.port()));
  expect_part(text, "did not answer within 50 ms");
}

TEST(TcpStore, StaysFailed) {
  const ScriptedServer server({{.lines = {new_hands}, .closes = true}, {.lines = {new_hands}}});
  const auto store = connect(server, StoreProtocol::torch_2);
  const std::vector<std::string> key{"/n"};

  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { store->add("/n", 1); }, [&] { store->set("/n", "1"); }, [&] { store->get("/n"); },
           [&] { store->remove("/n"); }, [&] { store->wait(key, 1s); }})
    expect_part(complaint(call), "closed the connection");
  EXPECT_EQ(server.connections(), 1);
}

TEST(TcpStore, StaysFailedAfterOldRemove) {
  const ScriptedServer server({{.lines = {old_hands}, .closes = true}});
  const auto store = connect(server, StoreProtocol::torch_1);
  EXPECT_NE(complaint([&] { store->add("/n", 1); }), "");
  EXPECT_NE(complaint([&] { store->remove("/n"); }), "");
}

TEST(TcpStore, WaitsInTheServerAndCancels) {
  const Script::Line wait{bytes("06 L(1) L(2) '/x'"), ""};
  const ScriptedServer server({{.lines = {new_hands,
                                          wait,
                                          {bytes("0C"), bytes("01")},
                                          wait,
                                          {bytes("0C"), bytes("00 01")},
                                          {wait.expected, bytes("00")}}}});
  const auto store = connect(server, StoreProtocol::torch_2);
  const std::vector<std::string> key{"/x"};
  EXPECT_FALSE(store->wait(key, 1ms));
  EXPECT_TRUE(store->wait(key, 1ms)) << "the key was set just before the wait was cancelled";
  EXPECT_TRUE(store->wait(key, 20s));
}

TEST(TcpStore, BelievesNoLength) {
  const Script::Line check{bytes("05 L(1) L(2) '/x'"), bytes("00")};
  for (const char* length : {"L(8388609)", "L(4611686018427387904)", "L(-1)"}) {
    const Script::Line get{bytes("03 L(2) '/x'"), bytes(length)};
    const ScriptedServer server({{.lines = {new_hands, check, get}}});
    const auto store = connect(server, StoreProtocol::torch_2);
    expect_part(complaint([&] { store->get("/x"); }), "announces a value of ");
  }
}

TEST(TcpStore, RefusesAServerThatSpeaksFirstAsSshDoes) {
  const std::string banner = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n";
  const ScriptedServer new_one({{.lines = {{new_question, banner}}}});
  const ScriptedServer old_one({{.lines = {{old_question, banner}}}});
  expect_part(complaint([&] { connect(new_one, StoreProtocol::torch_2); }),
              "what listens there is no store");
  expect_part(complaint([&] { connect(old_one, StoreProtocol::torch_1); }),
              "what listens there is no store");
}

TEST(TcpStore, FindsGarbageInsteadOfYesOrNo) {
  const ScriptedServer server({{.lines = {new_hands, {bytes("05 L(1) L(2) '/x'"), bytes("02")}}}});
  const auto store = connect(server, StoreProtocol::torch_2);
  expect_part(complaint([&] { store->get("/x"); }), "answers 2");
}

TEST(TcpStore, RemovesAsTheReleaseDoes) {
  const Script first_1_13{.lines = {old_hands, {bytes("08 L(2) '/x'"), bytes("L(1)")}}};
  const Script first_2_1{.lines = {old_hands, {bytes("07 L(2) '/x'"), bytes("L(1)")}}};
  const Script closes_at_12{.lines = {{bytes("0C"), ""}}, .closes = true};
  const Script closes_at_11{.lines = {{bytes("0B"), ""}}, .closes = true};
  const ScriptedServer torch_1_13({first_1_13, closes_at_12, closes_at_11});
  const ScriptedServer torch_2_0({first_1_13, {.lines = {{bytes("0C"), bytes("01")}}}});
  const ScriptedServer torch_2_1(
      {first_2_1, closes_at_12, {.lines = {{bytes("0B"), bytes("01")}}}});

  for (const ScriptedServer* server : {&torch_1_13, &torch_2_0, &torch_2_1})
    EXPECT_TRUE(connect(*server, StoreProtocol::torch_1)->remove("/x"));
}

TEST(TcpStore, RefusesWhatNoServerTakesAndGoesOn) {
  const StoreServer server;
  const auto store = connect_store("localhost", server.port(), 20s);
  const std::string long_key(8193, 'k'), long_value((std::size_t{8} << 20) + 1, 'v');
  const std::vector<std::string> many_keys(131'073), key{long_key};

  EXPECT_THROW(store->set(long_key, ""), std::invalid_argument);
  EXPECT_THROW(store->set("/x", long_value), std::invalid_argument);
  EXPECT_THROW(store->get(long_key), std::invalid_argument);
  EXPECT_THROW(store->add(long_key, 1), std::invalid_argument);
  EXPECT_THROW(store->remove(long_key), std::invalid_argument);
  EXPECT_THROW(store->wait(key, 0ms), std::invalid_argument);
  EXPECT_THROW(store->wait(many_keys, 0ms), std::invalid_argument);
  EXPECT_THROW(store->wait({}, -1ms), std::invalid_argument);
  EXPECT_THROW(store->set_deadline(0ms), std::invalid_argument);

  store->set_deadline(std::chrono::milliseconds::max());
  store->set(long_key.substr(1), long_value.substr(1));
  EXPECT_EQ(store->get(long_key.substr(1)), long_value.substr(1));
  EXPECT_TRUE(store->wait({}, std::chrono::milliseconds::max()));
}

TEST(TcpStore, NoticesThatTheServerIsGone) {
  auto server = std::make_unique<StoreServer>();
  const auto store = connect_store("localhost", server->port(), 20s);
  store->set("/x", "1");
  server.reset();
  EXPECT_THROW(store->get("/x"), CommunicationError);
}

}  // namespace
}  // namespace shampoo::test
