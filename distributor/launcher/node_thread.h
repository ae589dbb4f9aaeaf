// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributor/launcher/launch_options.h"
#include "distributor/launcher/messages.h"

namespace shampoo::launcher {

/// What came from the other nodes.
struct NodeNews {
  std::vector<Order> orders;
  std::optional<std::string> lost;  ///< why no more will come: this node is on its own
};

/// Meets the other nodes and talks to them, on a thread of its own: whatever the network does,
/// nothing here waits. At the host, opens the stores of the workers as well.
class NodeThread {
 public:
  /// `options` is copied. Throws std::system_error.
  explicit NodeThread(const LaunchOptions& options);
  /// A thread that waits for the network is left behind; it touches nothing of the caller's.
  ~NodeThread();
  NodeThread(const NodeThread&) = delete;
  NodeThread& operator=(const NodeThread&) = delete;

  /// Readable when there is news, or when one of the answers below has changed.
  int descriptor() const;
  NodeNews take();

  /// This node's id in the job; empty: the others have not been met yet.
  std::optional<int> id() const;
  /// Whether this node decides.
  bool host() const;
  /// At the host: whether all have ended or are lost.
  bool finished() const;

  /// The last report counts: one that was not sent yet is replaced.
  void report(const Report& report);
  /// Whether the last report was sent.
  bool delivered() const;

 private:
  struct Shared;
  class Talk;
  std::shared_ptr<Shared> shared_;
};

}  // namespace shampoo::launcher
