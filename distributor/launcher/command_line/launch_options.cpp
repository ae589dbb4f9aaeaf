// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/command_line/launch_options.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "distributor/launcher/command_line/flags.h"
#include "distributor/launcher/command_line/rendezvous_flags.h"
#include "distributor/launcher/processors.h"

namespace shampoo::launcher {
namespace {

using Text = const std::string&;

/// A flag of torchrun's that this launcher accepts for some values only, without any effect.
struct UnusedFlag {
  const char* name;
  const char* value_name;
  std::array<std::string_view, 3> accepted;
  const char* advice;  ///< why others are refused, and what to do
  bool has_variable = true;
};

constexpr UnusedFlag unused_flags[] = {
    {"start-method", "METHOD", {"spawn", "fork", "forkserver"}, "workers are always executed"},
    {"event-log-handler", "NAME", {"null"}, "handlers are Python code"},
    {"logs-specs",
     "NAME",
     {"default"},
     "log destinations of other packages are Python code",
     false},
    {"numa-binding", "KIND", {}, "start numactl as PROGRAM, with your program behind it", false},
    {"virtual-local-rank", "", {"0", "false"}, "let the program choose its GPU by LOCAL_RANK"},
    {"duplicate-stdout-filters", "TEXT", {}, "filter the files below --log-dir"},
    {"duplicate-stderr-filters", "TEXT", {}, "filter the files below --log-dir"},
    {"print-completion", "SHELL", {}, "there are no completion scripts", false},
};

int count_workers(Text text, const Environment& environment) {
  constexpr int most_workers = 65'535;
  if (text == "cpu") return count_processors();
  if (text == "gpu" || text == "auto") {
    const int gpus = count_gpus(environment);
    if (gpus > 0) return gpus;
    if (text == "auto") return count_processors();
    throw UsageError("--nproc-per-node=gpu, but this node shows no GPU");
  }
  if (text.find_first_not_of("-+0123456789 ") != std::string::npos)
    throw InvalidValue("auto, cpu, gpu or a number");
  return parse_number(text, 1, most_workers);
}

/// One of several words.
std::string choice(Text text, std::initializer_list<const char*> words, const char* form) {
  if (std::ranges::find(words, text) == words.end()) throw InvalidValue(form);
  return text;
}

std::string not_empty(Text text) {
  if (text.empty()) throw InvalidValue("a name");
  return text;
}

/// The flags of one call, and the values that need others to be understood.
class CommandLine {
 public:
  CommandLine(LaunchOptions& options, const Environment& environment)
      : options_(options), environment_(environment) {
    add_workers();
    add_program();
    add_rendezvous();
    add_failures();
    add_output();
    add_unused();
  }

  bool parse(int argc, const char* const* argv, std::ostream& out) {
    if (!flags_.parse(argc, argv, out)) return false;
    options_.program = flags_.command().front();
    options_.arguments.assign(flags_.command().begin() + 1, flags_.command().end());
    options_.runner = runner();
    for (const char* name :
         {"rdzv-backend", "rdzv-endpoint", "rdzv-id", "node-rank", "master-addr", "master-port"})
      if (flags_.given(name)) rendezvous_.given.insert(name);
    apply_rendezvous(rendezvous_, options_);
    read_other_variables();
    return true;
  }

 private:
  void add_workers();
  void add_program();
  void add_rendezvous();
  void add_failures();
  void add_output();
  void add_unused();
  Runner runner() const;
  void read_other_variables();

  LaunchOptions& options_;
  const Environment& environment_;
  RendezvousFlags rendezvous_;
  bool module_ = false, no_python_ = false, run_path_ = false;
  Flags flags_;
};

void CommandLine::add_workers() {
  flags_.group("Workers");
  flags_.value(
      {"nnodes", 0, "N", "1", "Nodes of the job; N:N is accepted as well, a range is not."},
      [&](Text text) { options_.nodes = parse_nodes(text); });
  flags_.value({"nproc-per-node", 0, "N", "1",
                "Workers of this node: a number, cpu (one per processor), gpu (one\nper GPU), or "
                "auto (gpu where there are any, otherwise cpu)."},
               [&](Text text) { options_.workers = count_workers(text, environment_); });
  flags_.value(
      {"role", 0, "NAME", "default", "ROLE_NAME of the workers, and prefix of teed lines."},
      [&](Text text) { options_.role = text; });
}

void CommandLine::add_program() {
  flags_.group("Program");
  flags_.toggle({"module", 'm', "", "", "PROGRAM is a Python module."}, module_);
  flags_.toggle({"no-python", 0, "", "", "Execute PROGRAM even where its name ends in .py."},
                no_python_);
  flags_.toggle({"run-path", 0, "", "", "Start PROGRAM with Python, whatever its name."},
                run_path_);
}

void CommandLine::add_rendezvous() {
  flags_.group("Rendezvous of nodes");
  flags_.toggle({"standalone", 0, "", "",
                 "One node, a free port and a run id of its own; the default for one\nnode without "
                 "--master-port or --rdzv-endpoint."},
                rendezvous_.standalone);
  flags_.value({"rdzv-backend", 0, "NAME", "static",
                "static: node 0 serves the store, nodes have given ranks. c10d: the\nowner of the "
                "endpoint serves it, ranks follow the order of arrival."},
               [&](Text text) {
                 rendezvous_.backend =
                     choice(text, {"static", "c10d"}, "static or c10d; no etcd server is needed");
               });
  flags_.value({"rdzv-endpoint", 0, "HOST[:PORT]", "",
                "Where the store is; with c10d at port 29400 unless given."},
               [&](Text text) { rendezvous_.endpoint = parse_endpoint(text); });
  flags_.value({"rdzv-id", 0, "ID", "none", "Name of the job, the same on all nodes."},
               [&](Text text) { options_.run_id = not_empty(text); });
  flags_.value({"rdzv-conf", 0, "KEY=VALUE,...", "",
                "Seconds: timeout or join_timeout (600), keep_alive_interval or\nheartbeat_timeout "
                "(5); also keep_alive_max_attempt (3), is_host (0 or\n1, c10d), store_type (tcp). "
                "last_call_timeout, close_timeout,\nread_timeout, rank and use_libuv have no "
                "effect."},
               [&](Text text) { apply_rendezvous_settings(text, options_); });
  flags_.value({"node-rank", 0, "N", "0", "Rank of this node; static only."},
               [&](Text text) { rendezvous_.node_rank = parse_number(text, 0, 65'534); });
  flags_.value({"master-addr", 0, "HOST", "127.0.0.1", "Node 0; static only."},
               [&](Text text) { rendezvous_.master_address = parse_endpoint(text).host; });
  flags_.value({"master-port", 0, "PORT", "29500",
                "Of the store on node 0, for launchers and workers; static only."},
               [&](Text text) {
                 rendezvous_.master_port =
                     static_cast<std::uint16_t>(parse_number(text, 0, 65'535));
               });
  flags_.value(
      {"local-addr", 0, "HOST", "", "Name of this node in messages, unless its host name."},
      [&](Text text) { options_.local_address = text; });
  options_.run_id = "none";
}

void CommandLine::add_failures() {
  flags_.group("Failures and signals");
  flags_.value({"max-restarts", 0, "N", "0",
                "How often all workers of all nodes are restarted after one failed or\na node gave "
                "no heartbeat."},
               [&](Text text) { options_.max_restarts = parse_number(text, 0, 1'000'000'000); });
  flags_.value({"monitor-interval", 0, "SECONDS", "0.1",
                "How often to look for news of other nodes, at least twice a second.\nThe end of "
                "an own worker is noticed at once."},
               [&](Text text) {
                 options_.monitor_interval =
                     std::max(parse_seconds(text), std::chrono::milliseconds(1));
               });
  flags_.value({"signals-to-handle", 0, "NAME,...", options_.signal_names,
                "Signals that are forwarded to the workers before the launcher ends."},
               [&](Text text) {
                 options_.signals = parse_signals(text);
                 options_.signal_names = text;
               });
  flags_.value({"shutdown-timeout", 0, "SECONDS", "30",
                "Between that signal, or SIGTERM after a failure, and SIGKILL.\nSecond variable: "
                "TORCH_ELASTIC_SHUTDOWN_TIMEOUT."},
               [&](Text text) { options_.shutdown_timeout = parse_seconds(text); });
  flags_.value({"exit-code", 0, "launcher|worker", "launcher",
                "Of a failed job: 1, or the code of the first worker that failed, 128\n+ signal. "
                "Not in torchrun.",
                false},
               [&](Text text) {
                 options_.worker_exit_code =
                     choice(text, {"launcher", "worker"}, "launcher or worker") == "worker";
               });
  options_.signals = parse_signals(options_.signal_names);
}

void CommandLine::add_output() {
  flags_.group("Output");
  flags_.value({"log-dir", 0, "FOLDER", "",
                "Log files go to FOLDER/<run id>_<random>/attempt_<n>/<local rank>/,\nby default "
                "to a temporary folder; /dev/null: no files."},
               [&](Text text) { options_.log_folder = text; });
  flags_.value({"redirects", 'r', "STREAMS", "0",
                "Streams that go to log files: 0 none, 1 output, 2 errors, 3 both; for\nall "
                "workers, or by local rank as in 0:3,12:1."},
               [&](Text text) { options_.redirects = parse_streams(text); });
  flags_.value({"tee", 't', "STREAMS", "0",
                "Streams that go to log files and, line by line with a prefix, to the\nconsole; "
                "written as --redirects."},
               [&](Text text) { options_.tee = parse_streams(text); });
  flags_.value({"log-line-prefix-template", 0, "TEXT", "",
                "Prefix of teed lines: ${role_name}, ${local_rank}, ${rank} and\n${hostname} are "
                "replaced. [${role_name}${local_rank}]: by default."},
               [&](Text text) { options_.line_prefix = text; });
  flags_.value({"local-ranks-filter", 0, "N,...", "",
                "Local ranks whose output reaches the console; all by default."},
               [&](Text text) { options_.console_local_ranks = parse_local_ranks(text); });
}

void CommandLine::add_unused() {
  flags_.group("Accepted without effect, or refused");
  for (const UnusedFlag& flag : unused_flags) {
    const std::string first(flag.accepted.front()), advice(flag.advice);
    flags_.value(
        {std::string(flag.name), 0, std::string(flag.value_name), first,
         (first.empty() ? "Refused: " : "Others are refused: ") + advice + ".", flag.has_variable},
        [&flag, advice](Text text) {
          if (std::ranges::find(flag.accepted, text) == flag.accepted.end())
            throw Unsupported(advice);
        });
  }
}

Runner CommandLine::runner() const {
  if (run_path_) return Runner::python;
  if (module_ && no_python_) throw UsageError("--module and --no-python exclude each other");
  if (module_) return Runner::module;
  return no_python_ ? Runner::direct : Runner::automatic;
}

void CommandLine::read_other_variables() {
  constexpr const char* older_timeout = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  const std::string timeout = value_or(environment_, older_timeout, "");
  if (!flags_.given("shutdown-timeout") && !timeout.empty()) {
    try {
      options_.shutdown_timeout = parse_seconds(timeout);
    } catch (const InvalidValue& error) {
      throw UsageError(std::string(older_timeout) + " must be " + error.what() + ", not '" +
                       timeout + "'");
    }
  }
  const auto prefix = environment_.find("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (!options_.line_prefix && prefix != environment_.end()) options_.line_prefix = prefix->second;
  if (value_or(environment_, "TORCHELASTIC_ENABLE_FILE_TIMER", "") == "1")
    options_.warnings.emplace_back("TORCHELASTIC_ENABLE_FILE_TIMER has no effect");
  if (!value_or(environment_, "TORCHELASTIC_HEALTH_CHECK_PORT", "").empty())
    options_.warnings.emplace_back("TORCHELASTIC_HEALTH_CHECK_PORT has no effect");
}

}  // namespace

std::optional<LaunchOptions> read_launch_options(int argc, const char* const* argv,
                                                 const Environment& environment,
                                                 std::ostream& out) {
  LaunchOptions options;
  CommandLine command_line(options, environment);
  if (!command_line.parse(argc, argv, out)) return std::nullopt;
  return options;
}

}  // namespace shampoo::launcher
