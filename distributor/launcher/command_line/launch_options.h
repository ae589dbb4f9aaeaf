// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "distributor/system/environment.h"

namespace shampoo::launcher {

/// The command line or a PET_ variable asks for something impossible. One line; exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Rendezvous : std::uint8_t {
  one_node,  ///< bare call or --standalone: the store is on localhost, at any free port
  fixed,     ///< torchrun's `static`: node_rank is given, node 0 serves the store
  dynamic    ///< torchrun's `c10d`: the owner of the endpoint serves the store, ranks are assigned
};

/// How `program` is started.
enum class Runner : std::uint8_t {
  automatic,  ///< run with Python if the name ends in .py, otherwise as an executable
  direct,     ///< run as an executable
  python,     ///< run as a Python program
  module      ///< run as a Python module
};

/// Standard streams of one worker.
struct Streams {
  bool out = false;
  bool error = false;
  bool operator==(const Streams&) const = default;
};

/// Streams of all workers, or of the listed local ranks only.
struct StreamSelection {
  Streams all;
  std::map<int, Streams> by_local_rank;

  Streams of(int local_rank) const {
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? all : found->second;
  }
};

/// Keys of --rdzv-conf.
struct RendezvousTimes {
  std::chrono::milliseconds join = std::chrono::seconds(600);     ///< join_timeout, timeout
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);  ///< interval of heartbeats
  /// Missed heartbeats after which a node counts as lost.
  int heartbeats_missed = 3;
};

/// The options of one launch, checked, with every default filled in.
struct LaunchOptions {
  int nodes = 1;
  int workers = 1;  ///< workers per node

  Rendezvous rendezvous = Rendezvous::one_node;
  std::string endpoint_host = "localhost";  ///< host of the store
  std::uint16_t endpoint_port = 0;          ///< port of the store; 0: any free one, one node only
  std::string run_id = "none";
  std::string secret;          ///< the job's, see store/proof.h; empty: none
  bool secret_is_new = false;  ///< made for this job: workers get it as a variable
  int node_rank = 0;           ///< `fixed` only
  std::string local_address;   ///< the name of this node in messages; empty: its host name
  RendezvousTimes times;
  std::optional<bool> is_host;  ///< `dynamic`: whether to serve the store; empty: detected

  int max_restarts = 0;
  std::chrono::milliseconds monitor_interval{100};
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(30);  ///< time before SIGKILL
  /// Signals forwarded to workers.
  std::vector<int> signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::string signal_names = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";  ///< the same, as given

  std::string role = "default";
  Runner runner = Runner::automatic;
  std::string program;
  std::vector<std::string> arguments;

  std::optional<std::string> log_folder;  ///< empty: a temporary folder
  StreamSelection redirects;              ///< streams that go to a file only
  StreamSelection tee;                    ///< streams that go to a file and the console
  std::optional<std::string> line_prefix;
  std::set<int> console_local_ranks;  ///< empty: all

  bool worker_exit_code = false;      ///< exit with the worker's code, 128 + signal; otherwise 1
  std::vector<std::string> warnings;  ///< accepted, perhaps not what was meant; for the console
};

/// Reads torchrun's command line, and the PET_ variables of this process for flags that are not on
/// it. Other variables are taken from `environment`. Empty where help or version was printed to
/// `out`: exit code 0. Throws UsageError.
std::optional<LaunchOptions> read_launch_options(int argc, const char* const* argv,
                                                 const Environment& environment,
                                                 std::ostream& out = std::cout);

}  // namespace shampoo::launcher
