// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/handshake.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "distributor/error.h"
#include "distributor/store/wire.h"

namespace shampoo::store {

namespace {

/// Sends, and waits for so many bytes.
template <std::size_t size>
Transfer exchange(const Socket& socket, std::string_view message, std::array<char, size>& reply,
                  Deadline deadline) {
  const Transfer sent = send_all(socket, message, deadline);
  return sent == Transfer::done ? receive_all(socket, reply.data(), size, deadline) : sent;
}

/// The number of keys is asked for by a single byte, so that a server of the other kind cannot be
/// left with half a request, at which servers of torch 1 would wait for all their clients.
std::optional<Socket> shake_old_hands(const Address& address, Deadline connecting,
                                      Deadline answering) {
  Socket socket = connect_to(address, connecting);
  std::array<char, 8> keys;
  const Message message(Request::count_keys, StoreProtocol::torch_1);
  if (exchange(socket, message.bytes(), keys, answering) != Transfer::done) return std::nullopt;
  return socket;
}

/// To a server of torch 1 this is a key of 2^58 bytes, which it refuses at once: hence four times
/// the same question.
Socket shake_new_hands(const Address& address, Deadline deadline) {
  Socket socket = connect_to(address, deadline);
  Message message(Request::validate, StoreProtocol::torch_2);
  message.word(validation_word);
  for (int i = 0; i < 4; ++i) message.byte(static_cast<std::uint8_t>(Request::count_keys));
  std::array<char, 32> keys;
  switch (exchange(socket, message.bytes(), keys, deadline)) {
    case Transfer::done:
      return socket;
    case Transfer::closed:
      throw CommunicationError("the first request was met by closing the connection");
    case Transfer::late:
      break;
  }
  throw CommunicationError("the first request was not answered");
}

}  // namespace

Peer shake_hands(const Address& address, StoreProtocol protocol, Patience patience) {
  if (protocol == StoreProtocol::torch_2)
    return {address, shake_new_hands(address, patience.deadline), StoreProtocol::torch_2};

  const bool sure = protocol == StoreProtocol::torch_1;
  // The new hands need time too.
  const Deadline third = Clock::now() + (patience.deadline - Clock::now()) / 3;
  const Deadline answering = sure ? patience.deadline : std::min(third, after(patience.silence));
  if (auto socket = shake_old_hands(address, patience.deadline, answering))
    return {address, std::move(*socket), StoreProtocol::torch_1};
  if (sure) throw CommunicationError("the first request was not answered");
  return {address, shake_new_hands(address, patience.deadline), StoreProtocol::torch_2};
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
    if (transfer == Transfer::late) throw CommunicationError("no answer to what its release is");
  }
  return before;
}

}  // namespace shampoo::store
