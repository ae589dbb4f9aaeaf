// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "distributor/launcher/environment.h"

namespace shampoo::launcher {

/// The command line or a PET_ variable asks for something impossible. One line; exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Rendezvous : std::uint8_t {
  one_node,  ///< bare call or --standalone: the store is on localhost, at any free port
  fixed,     ///< torchrun's `static`: node_rank is given, node 0 serves the store
  dynamic  ///< torchrun's `c10d`: whoever owns the endpoint serves the store, nodes may come and go
};

/// What `program` is.
enum class Runner : std::uint8_t {
  automatic,  ///< a Python program where its name ends in .py, otherwise an executable
  direct,     ///< an executable
  python,     ///< a Python program
  module      ///< a Python module
};

/// Of a worker: which go to a file, or to file and console.
struct Streams {
  bool out = false;
  bool error = false;
  bool operator==(const Streams&) const = default;
};

/// Of all workers, or of some local ranks and none of the others.
struct StreamChoice {
  Streams all;
  std::map<int, Streams> by_local_rank;

  Streams of(int local_rank) const {
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? all : found->second;
  }
};

/// Keys of --rdzv-conf.
struct RendezvousTimes {
  std::chrono::milliseconds join = std::chrono::seconds(600);      ///< join_timeout, timeout
  std::chrono::milliseconds last_call = std::chrono::seconds(30);  ///< last_call_timeout
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);   ///< between two signs of life
  int heartbeats_missed = 3;                                       ///< before a node counts as lost
};

/// What a call of the launcher asks for, checked and with every default filled in.
struct LaunchOptions {
  int least_nodes = 1, most_nodes = 1;
  int workers = 1;  ///< per node

  Rendezvous rendezvous = Rendezvous::one_node;
  std::string endpoint_host = "localhost";  ///< of the store
  std::uint16_t endpoint_port = 0;          ///< of the store; 0: any free one
  std::string run_id;
  int node_rank = 0;          ///< `fixed` only
  std::string local_address;  ///< what this node advertises; empty: its host name
  RendezvousTimes times;
  std::optional<bool> is_host;  ///< `dynamic`: whether to serve the store; empty: find out

  int max_restarts = 0;
  std::chrono::milliseconds monitor_interval{100};
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(30);  ///< before SIGKILL
  std::vector<int> signals;                                               ///< to forward
  std::string signal_names = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";             ///< the same, as given

  std::string role = "default";
  Runner runner = Runner::automatic;
  std::string program;
  std::vector<std::string> arguments;
  bool virtual_local_rank = false;

  std::optional<std::string> log_folder;  ///< empty: a new one in the folder for temporary files
  StreamChoice redirects;                 ///< to a file only
  StreamChoice tee;                       ///< to a file and the console
  std::optional<std::string> line_prefix;
  std::set<int> console_local_ranks;  ///< empty: all
  std::vector<std::string> duplicate_out, duplicate_error;

  bool pass_on_exit_code = false;     ///< exit with the worker's code, 128 + signal; otherwise 1
  std::vector<std::string> warnings;  ///< what was accepted without effect; for the console
};

/// Reads torchrun's command line, and its PET_ variables for what is not on it. Empty where all
/// that was asked for, such as help, went to `out`: exit code 0. Throws UsageError.
std::optional<LaunchOptions> read_launch_options(int argc, const char* const* argv,
                                                 const Environment& environment,
                                                 std::ostream& out = std::cout);

}  // namespace shampoo::launcher
