// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shampoo {

/// Key-value store shared by all processes of a job, through which ranks find each other.
///
/// Every member function waits for the store's reply and throws CommunicationError, naming the
/// store's address, if there is none before the deadline. Not safe for concurrent calls. Keys are
/// arbitrary bytes, at most 8 KiB; values have at most 8 MiB.
class Store {
 public:
  virtual ~Store() = default;

  /// Sets the value of a key, replacing any value it has.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Empty if there is no such key. Does not wait for the key.
  virtual std::optional<std::string> get(std::string_view key) = 0;
  /// Adds to a decimal counter, which starts at 0; returns the sum.
  virtual std::int64_t add(std::string_view key, std::int64_t amount) = 0;
  /// Sets the key to `desired` if it is absent. Returns the value it has afterwards. Atomic.
  virtual std::string set_if_absent(std::string_view key, std::string_view desired) = 0;
  /// Returns whether there was such a key, or may have been if the connection broke meanwhile.
  virtual bool remove(std::string_view key) = 0;
  /// Waits until all keys exist, for at most `longest`; returns whether they do. 0: does not wait.
  virtual bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) = 0;

  /// Deadline of each following request, at least 1 ms.
  virtual void set_deadline(std::chrono::milliseconds deadline) = 0;
  /// Address and protocol for messages: "host:port, protocol of torch 2.2 and later".
  virtual std::string description() const = 0;
};

/// Numbering of requests in torch's TCPStore.
enum class StoreProtocol : std::uint8_t {
  automatic,  ///< detected; harmless to servers of either kind
  torch_1,    ///< releases up to 2.1
  torch_2     ///< releases from 2.2 on
};

/// Connects to the store of rank 0, of shampoorun or of torch (TCPStore); retries until the
/// deadline, as the server may start later. `secret`: that of the job, which client and server
/// prove to each other, see JoinOptions::secret; torch's servers have none. Throws
/// CommunicationError, naming the address and the error of the last attempt that the deadline did
/// not cut off.
///
/// If the connection breaks, a request connects again within its deadline and is repeated, each
/// add() counting once. The store then fails for good only if nothing listens at the address any
/// more, or another server does. A connection to a server of torch's cannot be renewed.
std::unique_ptr<Store> connect_store(const std::string& host, std::uint16_t port,
                                     std::chrono::milliseconds deadline,
                                     StoreProtocol protocol = StoreProtocol::automatic,
                                     const std::string& secret = {});

}  // namespace shampoo
