// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace shampoo::store {

namespace {

/// Unsent replies above which no further request of the client is read.
constexpr std::size_t most_unsent_bytes = std::size_t{1} << 20;
/// Largest buffer of an idle connection.
constexpr std::size_t kept_bytes = std::size_t{4} << 10;

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
  switch (reader_.read(unread(), *protocol_)) {
    case RequestReader::State::incomplete:
      return Step::idle;
    case RequestReader::State::refused:
      return Step::refused;
    case RequestReader::State::complete:
      break;
  }
  if (!handler.handle(id_, reader_, unread(), *protocol_, output_)) return Step::refused;
  consume(reader_.end());
  reader_.restart();
  return Step::answered;
}

bool Connection::receive(char* scratch, std::size_t size) {
  const ssize_t received = ::recv(fd(), scratch, size, 0);
  if (received < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (received == 0) return false;
  input_.append(scratch, static_cast<std::size_t>(received));
  return true;
}

bool Connection::flush() {
  while (sent_ < output_.size()) {
    const ssize_t sent =
        ::send(fd(), output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    sent_ += static_cast<std::size_t>(sent);
  }
  empty(output_, sent_);
  return true;
}

bool Connection::is_congested() const { return output_.size() - sent_ > most_unsent_bytes; }

/// From torch 2.2 on a connection starts with VALIDATE and its word. An old SET cannot: its key
/// would be too long.
Connection::Step Connection::decide_protocol() {
  static const std::string validation =
      Message(Request::validate, StoreProtocol::torch_2).word(validation_word).bytes();
  const std::string_view begin = unread().substr(0, validation.size());
  if (!std::string_view(validation).starts_with(begin)) {
    protocol_ = StoreProtocol::torch_1;
  } else if (begin.size() == validation.size()) {
    protocol_ = StoreProtocol::torch_2;
    consume(validation.size());
  }
  return protocol_ ? Step::answered : Step::idle;
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
