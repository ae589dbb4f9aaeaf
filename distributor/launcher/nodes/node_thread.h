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

/// This node's place in the job.
struct JoinedNode {
  int node = 0;
  bool is_host = false;
  std::uint16_t store_port = 0;
};

/// News of the job.
struct NodeEvents {
  std::vector<Order> orders;           ///< since the last call
  std::optional<JoinedNode> joined;    ///< empty until the job is joined, and after a failure
  bool finished = false;               ///< at the host: all nodes have ended or are lost
  std::optional<std::string> failure;  ///< why no more will come
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

  /// Readable when take() has news.
  int descriptor() const;
  NodeEvents take();

  /// The last report counts: one that was not sent yet is replaced.
  void report(const Report& report);
  /// Waits until the last report was sent, at most so long. Returns at once where the job was not
  /// joined.
  void flush(std::chrono::milliseconds longest);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace shampoo::launcher
