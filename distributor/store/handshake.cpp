// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/handshake.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "distributor/communicator.h"
#include "distributor/store/wire.h"

namespace shampoo::store {

namespace {

/// Sends the message and receives `size` bytes.
template <std::size_t size>
Transfer exchange(const Socket& socket, std::string_view message, std::array<char, size>& reply,
                  Deadline deadline) {
  const Transfer sent = send_all(socket, message, deadline);
  return sent == Transfer::done ? receive_all(socket, reply.data(), size, deadline) : sent;
}

/// Asks for the number of keys, by a single byte, as half a request would block a server of torch 1
/// for all its clients. Throws CommunicationError.
Socket shake_old_hands(const Address& address, Deadline deadline) {
  Socket socket = connect_to(address, deadline);
  std::array<char, 8> keys;
  const Message message(Request::count_keys, StoreProtocol::torch_1);
  if (exchange(socket, message.bytes(), keys, deadline) != Transfer::done)
    throw CommunicationError("the first request was not answered");
  return socket;
}

/// Empty if the server closes the connection. A server of torch 1 does so: it takes these 9 bytes
/// for a SET with a key of 2^58 bytes; hence four times the same question.
std::optional<Socket> shake_new_hands(const Address& address, Deadline deadline) {
  Socket socket = connect_to(address, deadline);
  Message message(Request::validate, StoreProtocol::torch_2);
  message.word(validation_word);
  for (int i = 0; i < 4; ++i) message.byte(static_cast<std::uint8_t>(Request::count_keys));
  std::array<char, 32> keys;
  const Transfer transfer = exchange(socket, message.bytes(), keys, deadline);
  if (transfer == Transfer::closed) return std::nullopt;
  if (transfer == Transfer::late) throw CommunicationError("the first request was not answered");
  return socket;
}

}  // namespace

Peer shake_hands(const Address& address, StoreProtocol protocol, Deadline deadline) {
  if (protocol != StoreProtocol::torch_1) {
    if (auto socket = shake_new_hands(address, deadline))
      return {address, std::move(*socket), StoreProtocol::torch_2};
    if (protocol == StoreProtocol::torch_2)
      throw CommunicationError("the server closed the connection at the first request");
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
