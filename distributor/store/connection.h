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

/// One client of the server: what came from it and is not answered yet, what is to go to it.
class Connection {
 public:
  Connection(ClientId id, Socket socket) : id_(id), socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  enum class Step : std::uint8_t {
    answered,  ///< one request; there may be more
    idle,      ///< needs more bytes, or the client to take some
    refused    ///< to be closed
  };
  Step answer_one(Service& service);

  /// Reads at most `size` bytes, by way of `scratch`. False: to be closed.
  bool receive(char* scratch, std::size_t size);
  /// Sends as much as the client takes now. False: to be closed.
  bool flush();
  void end_wait() { output_.push_back(0); }

  /// Whether it has sent a request that makes sense.
  bool served() const { return served_; }
  /// Whether to read, and whether to go on when the client takes bytes.
  bool wants_input() const { return !stuffed(); }
  bool wants_output() const { return sent_ < output_.size() || stopped_; }
  /// Of its buffers.
  std::size_t memory() const { return input_.capacity() + output_.capacity() + reader_.memory(); }

  std::uint32_t events = 0;   ///< those asked for
  std::size_t accounted = 0;  ///< memory, as of the last look
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  std::uint64_t large_since = never;  ///< which look found its buffers large

 private:
  std::string_view unread() const { return std::string_view(input_).substr(begin_); }
  bool stuffed() const;
  Step decide_protocol();
  void consume(std::size_t bytes);

  ClientId id_;
  Socket socket_;
  std::optional<StoreProtocol> protocol_;
  RequestReader reader_;
  std::string input_, output_;
  std::size_t begin_ = 0, sent_ = 0;
  bool served_ = false;
  bool stopped_ = false;  ///< with requests to answer, as the client has not taken its replies
};

}  // namespace shampoo::store
