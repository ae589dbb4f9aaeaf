// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shampoo::launcher {

/// What a launcher says of itself when it joins a job.
struct Introduction {
  std::string host;
  pid_t pid = 0;
  int workers = 1;
  std::string role;
  int node_rank = -1;                        ///< -1: any
  std::map<std::string, std::string> terms;  ///< flags that must be equal on all nodes

  /// For messages: "node host:pid".
  std::string name() const;
};

enum class Stage : std::uint8_t {
  waiting,    ///< without workers, ready for the next attempt
  running,    ///< workers run
  succeeded,  ///< all its workers of `attempt` ended with 0
  failed,     ///< a worker of `attempt` ended otherwise: the attempt is lost
  broken,     ///< cannot run workers; no attempt would help
  leaving,    ///< was told to end
  done        ///< obeyed the order to end; nothing of it runs any more
};

/// What a launcher says of its workers.
struct Report {
  Stage stage = Stage::waiting;
  int order = 0;    ///< the last one that was obeyed
  int attempt = 0;  ///< the last one that was started
  int code = 0;     ///< `failed`: what a shell would say of the first worker that did
  std::string text;
};

/// A node's part in an attempt.
struct Member {
  int id = 0;
  int workers = 1;
  std::string role;
};

/// What all launchers must do next.
struct Order {
  enum class Kind : std::uint8_t {
    wait,  ///< for the next attempt; stop what runs
    run,   ///< start `attempt`
    end    ///< stop what runs and exit
  };
  int number = 0;  ///< grows
  Kind kind = Kind::wait;
  int attempt = 0;   ///< 0, 1, ...
  int restarts = 0;  ///< how many attempts were lost so far
  std::string store_host;
  std::uint16_t store_port = 0;
  std::vector<Member> members;  ///< in the order of their group ranks
  int code = 0;                 ///< `end`: the exit code
  std::string text;             ///< why
};

std::string encode(const Introduction& introduction);
std::string encode(const Report& report);
std::string encode(const Order& order);

/// Inverses. Throw CommunicationError for anything else.
Introduction decode_introduction(const std::string& text);
Report decode_report(const std::string& text);
Order decode_order(const std::string& text);

}  // namespace shampoo::launcher
