// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "distributor/store/proof.h"
#include "distributor/system/hmac.h"

namespace shampoo::store {

namespace {

/// Unsent replies above which no further request of the client is read.
constexpr std::size_t most_unsent_bytes = std::size_t{1} << 20;
/// Largest buffer of an idle connection.
constexpr std::size_t kept_bytes = std::size_t{4} << 10;

bool changes_or_waits(Request request) {
  switch (request) {
    case Request::validate:
    case Request::get:
    case Request::check:
    case Request::count_keys:
    case Request::multi_get:
    case Request::cancel_wait:
    case Request::ping:
    case Request::find:
      return false;
    default:
      return true;
  }
}

void empty(std::string& buffer, std::size_t& begin) {
  begin = 0;
  buffer.clear();
  if (buffer.capacity() > kept_bytes) buffer.shrink_to_fit();
}

}  // namespace

Connection::Step Connection::answer_one(RequestHandler& handler) {
  stopped_ = is_congested();
  if (stopped_) return Step::idle;
  if (!protocol_) {
    const Step decided = decide_protocol();
    if (decided != Step::answered) return decided;
  }
  if (const auto step = check_secret()) return *step;
  switch (reader_.read(unread(), *protocol_)) {
    case RequestReader::State::incomplete:
      return Step::idle;
    case RequestReader::State::refused:
      return Step::refused;
    case RequestReader::State::complete:
      break;
  }
  const std::size_t answered = output_.size();
  if (!handler.handle(client_, reader_, unread(), *protocol_, output_)) {
    output_.resize(answered);
    return Step::refused;
  }
  ++traffic_.requests;
  takes_part_ = takes_part_ || changes_or_waits(reader_.request());
  consume(reader_.end());
  reader_.restart();
  return Step::answered;
}

bool Connection::receive(char* scratch, std::size_t size) {
  const ssize_t received = ::recv(fd(), scratch, size, 0);
  if (received < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (received == 0) return false;
  input_.append(scratch, static_cast<std::size_t>(received));
  traffic_.received += static_cast<std::uint64_t>(received);
  return true;
}

bool Connection::flush() {
  while (sent_ < output_.size()) {
    const ssize_t sent =
        ::send(fd(), output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    sent_ += static_cast<std::size_t>(sent);
    traffic_.sent += static_cast<std::uint64_t>(sent);
  }
  empty(output_, sent_);
  return true;
}

bool Connection::is_congested() const { return output_.size() - sent_ > most_unsent_bytes; }

/// From torch 2.2 on a connection starts with VALIDATE and its word. An old SET cannot: its key
/// would be too long.
Connection::Step Connection::decide_protocol() {
  const std::string_view begin = unread().substr(0, validation.size());
  if (!validation.starts_with(begin)) {
    protocol_ = StoreProtocol::torch_1;
  } else if (begin.size() == validation.size()) {
    protocol_ = StoreProtocol::torch_2;
    consume(validation.size());
  }
  return protocol_ ? Step::answered : Step::idle;
}

std::optional<Connection::Step> Connection::check_secret() {
  if (origin_.secret.empty()) return admitted_ ? std::nullopt : std::optional(Step::refused);
  if (unread().empty()) return Step::idle;
  const auto number = static_cast<std::uint8_t>(unread().front());
  const bool is_ours =
      protocol_ == StoreProtocol::torch_2 && (number == challenge_number || number == proof_number);
  if (!is_ours) return admitted_ ? std::nullopt : std::optional(Step::refused);
  if (unread().size() < 1 + challenge_bytes) return Step::idle;
  const bool accepted = number == challenge_number ? receive_challenge() : receive_proof();
  consume(1 + challenge_bytes);
  return accepted ? Step::answered : Step::refused;
}

bool Connection::receive_challenge() {
  const std::string own = random_bytes(challenge_bytes);
  const std::string both = std::string(unread().substr(1, challenge_bytes)) + own;
  expected_proof_ = client_proof(origin_.secret, both);
  output_ += own + server_proof(origin_.secret, both);
  return true;
}

/// Each challenge takes one proof.
bool Connection::receive_proof() {
  static_assert(challenge_bytes == proof_bytes);
  const std::string expected = std::exchange(expected_proof_, {});
  if (expected.empty() || !equal_in_constant_time(expected, unread().substr(1, proof_bytes)))
    return false;
  admitted_ = true;
  client_.account = Account::ours();
  output_.push_back(0);
  return true;
}

void Connection::consume(std::size_t bytes) {
  begin_ += bytes;
  if (begin_ == input_.size()) {
    empty(input_, begin_);
  } else if (begin_ > input_.size() / 2 && begin_ > kept_bytes) {
    input_.erase(0, begin_);
    begin_ = 0;
  }
}

}  // namespace shampoo::store
