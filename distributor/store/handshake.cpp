// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/handshake.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "distributor/communicator.h"
#include "distributor/store/proof.h"
#include "distributor/store/wire.h"
#include "distributor/system/hmac.h"

namespace shampoo::store {

namespace {

/// Sends the message and receives `size` bytes.
template <std::size_t size>
Transfer exchange(const Socket& socket, std::string_view message, std::array<char, size>& reply,
                  Deadline deadline) {
  const Transfer sent = send_all(socket, message, deadline);
  return sent == Transfer::done ? receive_all(socket, reply.data(), size, deadline) : sent;
}

/// Throws CommunicationError unless the 8 bytes can be a number of keys: others than stores, such
/// as servers of SSH and SMTP, send a text of their own first.
void check_count_of_keys(std::string_view bytes) {
  constexpr std::uint64_t most = std::uint64_t{1} << 32;
  if (read_number(bytes) >= most) throw CommunicationError("what listens there is no store");
}

/// Asks for the number of keys, by a single byte, as half a request would block a server of torch 1
/// for all its clients. Throws CommunicationError.
Socket shake_old_hands(const Address& address, Deadline deadline) {
  Socket socket = connect_to(address, deadline);
  std::array<char, 8> keys;
  const Message message(Request::count_keys, StoreProtocol::torch_1);
  if (exchange(socket, message.bytes(), keys, deadline) != Transfer::done)
    throw CommunicationError(
        "the first request was not answered; a server with a secret (SHAMPOO_JOB_SECRET) serves "
        "only those who have it, and one at its limit of connections nobody else");
  check_count_of_keys({keys.data(), keys.size()});
  return socket;
}

/// Both sides prove the secret. Throws CommunicationError.
void prove(const Socket& socket, const std::string& secret, Deadline deadline) {
  const std::string own = random_bytes(challenge_bytes);
  std::array<char, challenge_bytes + proof_bytes> reply;
  const std::string question = Message().byte(challenge_number).raw(own).bytes();
  const Transfer transfer = exchange(socket, question, reply, deadline);
  if (transfer == Transfer::late) throw CommunicationError("the first request was not answered");
  const std::string_view answer(reply.data(), reply.size());
  const std::string both = own + std::string(answer.substr(0, challenge_bytes));
  const std::string unproved =
      "the server does not prove the job's secret (SHAMPOO_JOB_SECRET): it is that of another job, "
      "or was started without it";
  if (transfer == Transfer::closed)
    throw CommunicationError(unproved + ", or is at its limit of connections");
  if (!equal_in_constant_time(answer.substr(challenge_bytes), server_proof(secret, both)))
    throw CommunicationError(unproved);
  std::array<char, 1> end;
  const std::string proof = Message().byte(proof_number).raw(client_proof(secret, both)).bytes();
  if (exchange(socket, proof, end, deadline) != Transfer::done)
    throw CommunicationError("the server did not accept the proof of the job's secret");
}

/// The name of the server's instance. Throws CommunicationError.
std::string read_instance(const Socket& socket, Deadline deadline) {
  constexpr std::size_t size = 16;
  std::array<char, 1 + 8 + size> reply;
  const Message message = Message(Request::find, StoreProtocol::torch_2).text(extension_key);
  if (exchange(socket, message.bytes(), reply, deadline) != Transfer::done || reply[0] != 1 ||
      read_number({&reply[1], 8}) != size)
    throw CommunicationError("the server did not name its instance");
  return {&reply[9], size};
}

/// Empty if the server closes the connection. A server of torch 1 does so: it takes the first 9
/// bytes for a SET with a key of 2^58 bytes; hence four times the same question.
std::optional<Peer> shake_new_hands(const Address& address, const std::string& secret,
                                    Deadline deadline) {
  Peer peer{address, connect_to(address, deadline), StoreProtocol::torch_2};
  Message message;
  if (secret.empty()) {
    message.raw(validation);
  } else {
    if (send_all(peer.socket, validation, deadline) != Transfer::done) return std::nullopt;
    prove(peer.socket, secret, deadline);
  }
  for (int i = 0; i < 4; ++i) message.byte(static_cast<std::uint8_t>(Request::count_keys));
  message.raw(Message(Request::check, StoreProtocol::torch_2)
                  .texts(std::array{std::string(extension_key)})
                  .bytes());
  std::array<char, 33> reply;
  const Transfer transfer = exchange(peer.socket, message.bytes(), reply, deadline);
  if (transfer == Transfer::closed) return std::nullopt;
  if (transfer == Transfer::late) throw CommunicationError("the first request was not answered");
  const std::string_view counts(reply.data(), reply.size() - 1);
  for (std::size_t i = 0; i < counts.size(); i += 8) check_count_of_keys(counts.substr(i, 8));
  if (reply.back() != 0 && reply.back() != 1)
    throw CommunicationError("what listens there is no store");
  if (reply.back() == 0) peer.instance = read_instance(peer.socket, deadline);
  return peer;
}

}  // namespace

Peer shake_hands(const Address& address, StoreProtocol protocol, const std::string& secret,
                 Deadline deadline) {
  if (protocol != StoreProtocol::torch_1 || !secret.empty()) {
    if (auto peer = shake_new_hands(address, secret, deadline)) return std::move(*peer);
    if (protocol == StoreProtocol::torch_2 || !secret.empty())
      throw CommunicationError(
          "the server closed the connection at the first request; it may be at its limit of "
          "connections");
  }
  return {address, shake_old_hands(address, deadline), StoreProtocol::torch_1};
}

/// CANCEL_WAIT is a single byte, answered by one: 12 in torch 2.0, 11 in 2.1, unknown before. 12
/// comes first, as 11 would begin a longer request of 2.0.
std::uint8_t old_number_of_remove(const Address& address, Deadline deadline) {
  constexpr std::uint8_t before = 8, of_2_1 = 7;
  for (const auto& [question, found] : {std::pair{"\x0C", before}, std::pair{"\x0B", of_2_1}}) {
    const Socket socket = connect_to(address, deadline);
    std::array<char, 1> answer;
    const Transfer transfer = exchange(socket, question, answer, deadline);
    if (transfer == Transfer::done) return found;
    if (transfer == Transfer::late)
      throw CommunicationError("the server did not answer which release it is");
  }
  return before;
}

}  // namespace shampoo::store
