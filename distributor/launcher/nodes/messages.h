// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shampoo::launcher {

/// Flags that must be equal on all nodes, by name; published by the host.
using JobTerms = std::map<std::string, std::string>;

/// One launcher, described to the others.
struct Introduction {
  std::string host;
  pid_t pid = 0;
  int workers = 1;
  std::string role;
};

/// "node 1 on HOST (pid 7)", for messages.
std::string name_of(const Introduction& introduction, int node);

enum class Stage : std::uint8_t {
  waiting,    ///< without workers, ready for the next attempt
  running,    ///< workers run
  succeeded,  ///< all its workers of `attempt` ended with 0
  failed,     ///< a worker of `attempt` failed: the attempt is lost
  broken,     ///< cannot run workers; a restart would not help
  leaving,    ///< was asked to end by a signal
  done        ///< the order to end is executed; none of its processes runs any more
};

/// State of one node, renewed with each heartbeat.
struct Report {
  Stage stage = Stage::waiting;
  int order = 0;     ///< number of the last order that was executed
  int attempt = 0;   ///< the last one that was started
  int code = 0;      ///< `failed`: exit code of the first failed worker, as of a shell
  std::string text;  ///< reason of `failed`, `broken` and `leaving`
  std::int64_t heartbeat = 0;
};

/// A node's part in an attempt.
struct Member {
  int workers = 1;
  std::string role;
};

enum class OrderKind : std::uint8_t {
  wait,  ///< for the next attempt; stop the workers
  run,   ///< start `attempt`
  end    ///< stop the workers and exit
};

/// From the host to all launchers.
struct Order {
  int number = 0;  ///< grows
  OrderKind kind = OrderKind::wait;
  int attempt = 0;              ///< how often the job was restarted
  std::vector<Member> members;  ///< `run`: in the order of the nodes
  int code = 0;                 ///< `end`: the exit code
  std::string text;             ///< reason
};

/// As JSON. For JobTerms, Introduction, Report and Order.
template <class Message>
std::string encode(const Message& message);

/// Inverse. Empty for any other text, as anybody who reaches the store's port can write to it.
template <class Message>
std::optional<Message> decode(const std::string& text);

}  // namespace shampoo::launcher
