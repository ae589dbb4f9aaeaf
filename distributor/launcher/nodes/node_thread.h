// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/nodes/messages.h"

namespace shampoo::launcher {

/// What came from the other nodes.
struct NodeEvents {
  std::vector<Order> orders;
  std::optional<std::string> failure;  ///< why no more will come
};

/// This node's place in the job.
struct JoinedNode {
  int node = 0;
  bool is_host = false;
  std::uint16_t store_port = 0;
};

/// Joins the job and talks to its other nodes, on a thread of its own, so that the network never
/// delays signals and workers. At the host, serves the store.
class NodeThread {
 public:
  /// `options` is copied. Throws std::system_error.
  explicit NodeThread(const LaunchOptions& options);
  /// Leaves a thread behind that waits for the network; it touches nothing of the caller's.
  ~NodeThread();
  NodeThread(const NodeThread&) = delete;
  NodeThread& operator=(const NodeThread&) = delete;

  /// Readable when there are events, or one of the answers below has changed.
  int descriptor() const;
  NodeEvents take();

  /// Empty until the job is joined.
  std::optional<JoinedNode> joined() const;
  /// At the host: whether all nodes have ended or are lost.
  bool finished() const;

  /// The last report counts: one that was not sent yet is replaced.
  void report(const Report& report);
  /// Waits until the last report was sent, at most so long. Returns at once where the job was not
  /// joined.
  void flush(std::chrono::milliseconds longest);

 private:
  struct Shared;
  class Loop;
  std::shared_ptr<Shared> shared_;
};

}  // namespace shampoo::launcher
