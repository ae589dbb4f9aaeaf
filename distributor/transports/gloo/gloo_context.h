// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/context.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distributor/transports/gloo/interruptible_transport.h"

namespace shampoo {

/// Connections of one rank to those at distances of powers of two, 2 log2(n) of n, which are what
/// Gloo's all_gather (a ring), barrier (dissemination) and broadcast (binomial trees) use. An
/// all_to_all needs all others, whose addresses travel over these.
///
/// Gloo's own connectFullMesh() keeps n^2 addresses of 136 bytes in a store. Throws std::exception.
class GlooContext final : public gloo::Context {
 public:
  /// The ranks at distances of powers of two, in ascending order.
  static std::vector<int> near_ranks(int rank, int size);

  GlooContext(int rank, int size, std::shared_ptr<gloo::transport::Device> device,
              std::chrono::milliseconds deadline);

  /// What each of near_ranks() needs to connect with this rank.
  std::string addresses() const;
  /// Connects with near_ranks(). `addresses`: those of each. Waits for them.
  void connect(const std::map<int, std::string>& addresses);
  /// Connects with all other ranks, unless that was done before. Collective over all ranks, within
  /// `deadline` of each message.
  void connect_all(std::chrono::milliseconds deadline);
  /// Ends pending operations on all connections, on both sides. From any thread.
  void close() noexcept;

 private:
  void make_pairs(const std::vector<int>& ranks, std::chrono::milliseconds deadline);
  std::vector<std::string> exchange(std::vector<std::string> blocks,
                                    std::chrono::milliseconds deadline);

  std::shared_ptr<gloo::transport::Context> tcp_;
  std::shared_ptr<InterruptibleTransport> interruptible_;  ///< around it; also transportContext_
  std::mutex mutex_;                                       ///< guards the list of pairs
  bool closed_ = false, complete_ = false;
};

}  // namespace shampoo
