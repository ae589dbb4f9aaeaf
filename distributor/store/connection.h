// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "distributor/store/request_handler.h"
#include "distributor/store/socket.h"

namespace shampoo::store {

/// What went over a connection.
struct Traffic {
  std::uint64_t requests = 0, received = 0, sent = 0;  ///< answered requests; bytes

  Traffic& operator+=(const Traffic& other) {
    requests += other.requests, received += other.received, sent += other.sent;
    return *this;
  }
};

/// Where a connection comes from, and what it has to prove.
struct ClientOrigin {
  Account account = Account::ours();  ///< until the secret is proved
  std::string secret = {};            ///< empty: the server has none
  bool trusted = true;                ///< served without a proof
};

/// One client of the server: buffers for requests not yet answered and for replies not yet sent,
/// each bounded by about twice the largest message.
class Connection {
 public:
  Connection(ClientId id, Socket socket, ClientOrigin origin = {})
      : origin_(std::move(origin)),
        client_{id, origin_.account},
        socket_(std::move(socket)),
        admitted_(origin_.trusted) {}

  int fd() const { return socket_.get(); }
  const ClientOrigin& origin() const { return origin_; }
  const Account& account() const { return client_.account; }
  /// True once a request was answered that is more than a greeting: the client is no stranger.
  bool established() const { return traffic_.requests > 0; }
  /// True if it has changed keys, or waits for one.
  bool takes_part() const { return takes_part_; }
  const Traffic& traffic() const { return traffic_; }

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

  std::uint32_t events = 0;                             ///< epoll events the server has asked for
  std::chrono::steady_clock::time_point last_active{};  ///< for the server
  std::size_t counted_memory = 0;                       ///< for the server

 private:
  std::string_view unread() const { return std::string_view(input_).substr(begin_); }
  bool is_congested() const;
  Step decide_protocol();
  /// Handles requests about the job's secret. Empty: the next request is another one, and allowed.
  std::optional<Step> check_secret();
  bool receive_challenge();
  bool receive_proof();
  void consume(std::size_t bytes);

  ClientOrigin origin_;
  RequestHandler::Client client_;
  Socket socket_;
  std::string expected_proof_;
  bool admitted_, takes_part_ = false;
  Traffic traffic_;
  std::optional<StoreProtocol> protocol_;
  RequestReader reader_;
  std::string input_, output_;
  std::size_t begin_ = 0, sent_ = 0;
  bool stopped_ = false;  ///< has requests to answer once the client has received replies
};

}  // namespace shampoo::store
