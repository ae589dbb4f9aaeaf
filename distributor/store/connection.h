// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "distributor/store/request_handler.h"
#include "distributor/store/socket.h"

namespace shampoo::store {

/// One client of the server: buffers for requests not yet answered and for replies not yet sent,
/// each bounded by about twice the largest message.
class Connection {
 public:
  Connection(ClientId id, Socket socket) : id_(id), socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  enum class Step : std::uint8_t {
    answered,  ///< answered one request; there may be more
    idle,      ///< nothing to do until the client sends more or receives output
    refused    ///< the connection must be closed
  };
  Step answer_one(RequestHandler& handler);

  /// Reads at most `size` bytes, through `scratch`. False: to be closed.
  bool receive(char* scratch, std::size_t size);
  /// Sends as much as the client accepts now. False: to be closed.
  bool flush();
  /// Appends the reply to a WAIT.
  void end_wait() { output_.push_back(0); }

  bool wants_input() const { return !is_congested(); }
  bool wants_output() const { return sent_ < output_.size() || stopped_; }
  /// Bytes of the buffers.
  std::size_t memory() const { return input_.capacity() + output_.capacity() + reader_.memory(); }

  std::uint32_t events = 0;  ///< epoll events the server has asked for

 private:
  std::string_view unread() const { return std::string_view(input_).substr(begin_); }
  bool is_congested() const;
  Step decide_protocol();
  void consume(std::size_t bytes);

  ClientId id_;
  Socket socket_;
  std::optional<StoreProtocol> protocol_;
  RequestReader reader_;
  std::string input_, output_;
  std::size_t begin_ = 0, sent_ = 0;
  bool stopped_ = false;  ///< has requests to answer once the client has received replies
};

}  // namespace shampoo::store
