// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/command_line/launch_options.h"

#include <algorithm>

#include "distributor/launcher/command_line/flags.h"
#include "distributor/launcher/command_line/parse_values.h"
#include "distributor/store/proof.h"
#include "distributor/system/hmac.h"

namespace shampoo::launcher {
namespace {

using Text = const std::string&;

auto whole_number(int least, int most) {
  return [=](Text text) { return parse_number(text, least, most); };
}

auto one_of(const char* first, const char* second, const char* advice = "") {
  return [=](Text text) {
    if (text != first && text != second)
      throw InvalidValue(std::string(first) + " or " + second + advice);
    return text;
  };
}

/// The flags of one call, and the values that need others to be understood.
class CommandLine {
 public:
  explicit CommandLine(const Environment& environment) : environment_(environment) {
    add_workers();
    add_program();
    add_rendezvous();
    add_failures();
    add_output();
    add_unused();
  }

  std::optional<LaunchOptions> parse(int argc, const char* const* argv, std::ostream& out) {
    if (!flags_.parse(argc, argv, out)) return std::nullopt;
    options_.program = flags_.command().front();
    options_.arguments.assign(flags_.command().begin() + 1, flags_.command().end());
    options_.worker_exit_code = exit_code_ == "worker";
    choose_runner();
    choose_rendezvous();
    choose_secret();
    read_other_variables();
    return options_;
  }

 private:
  void add_workers();
  void add_program();
  void add_rendezvous();
  void add_failures();
  void add_output();
  void add_unused();
  void choose_runner();
  void choose_rendezvous();
  void use_one_node();
  void use_static();
  void use_c10d();
  void choose_secret();
  void warn_without_effect(std::initializer_list<const char*> names, Text where);
  void read_other_variables();

  const Environment& environment_;
  LaunchOptions options_;
  Flags flags_;
  bool module_ = false, no_python_ = false, run_path_ = false;
  bool standalone_ = false;
  std::string backend_ = "static";
  Endpoint endpoint_;  ///< --rdzv-endpoint; without a host where it is not given
  int node_rank_ = 0;
  std::string master_address_ = "127.0.0.1";
  int master_port_ = 29'500;
  std::string exit_code_ = "launcher";
};

void CommandLine::add_workers() {
  flags_.group("Workers");
  flags_.assign(
      {"--nnodes", "N", "1", "Nodes of the job; N:N is accepted as well, a range is not."},
      options_.nodes, parse_nodes);
  flags_.assign({"--nproc-per-node", "N", "1",
                 "Workers of this node: a number, cpu (one per processor), gpu (one\nper GPU), or "
                 "auto (gpu where there are any, otherwise cpu)."},
                options_.workers, [this](Text text) { return parse_workers(text, environment_); });
  flags_.assign(
      {"--role", "NAME", "default", "ROLE_NAME of the workers, and prefix of teed lines."},
      options_.role);
}

void CommandLine::add_program() {
  flags_.group("Program");
  flags_.toggle({"-m,--module", "", "", "PROGRAM is a Python module."}, module_);
  flags_.toggle({"--no-python", "", "", "Execute PROGRAM even where its name ends in .py."},
                no_python_);
  flags_.toggle({"--run-path", "", "", "Start PROGRAM with Python, whatever its name."}, run_path_);
}

void CommandLine::add_rendezvous() {
  flags_.group("Rendezvous of nodes");
  flags_.toggle({"--standalone", "", "",
                 "One node, a free port and a run id of its own; the default for one\nnode without "
                 "--master-port or --rdzv-endpoint."},
                standalone_);
  flags_.assign({"--rdzv-backend", "NAME", "static",
                 "static: node 0 serves the store, nodes have given ranks. c10d: the\nowner of the "
                 "endpoint serves it, ranks follow the order of arrival."},
                backend_, one_of("static", "c10d", "; no etcd server is needed"));
  flags_.assign({"--rdzv-endpoint", "HOST[:PORT]", "",
                 "Where the store is; with c10d at port 29400 unless given."},
                endpoint_, parse_endpoint);
  flags_.assign({"--rdzv-id", "ID", "none", "Name of the job, the same on all nodes."},
                options_.run_id, [](Text text) {
                  if (text.empty()) throw InvalidValue("a name");
                  return text;
                });
  flags_.value({"--rdzv-conf", "KEY=VALUE,...", "",
                "Seconds: timeout or join_timeout (600), keep_alive_interval or\nheartbeat_timeout "
                "(5); also keep_alive_max_attempt (3), is_host (0 or\n1, c10d), store_type (tcp). "
                "last_call_timeout, close_timeout,\nread_timeout, rank and use_libuv have no "
                "effect."},
               [this](Text text) { parse_rendezvous_settings(text, options_); });
  flags_.assign({"--node-rank", "N", "0", "Rank of this node; static only."}, node_rank_,
                whole_number(0, 65'534));
  flags_.assign({"--master-addr", "HOST", "127.0.0.1", "Node 0; static only."}, master_address_,
                [](Text text) { return parse_endpoint(text).host; });
  flags_.assign({"--master-port", "PORT", "29500",
                 "Of the store on node 0, for launchers and workers; static only."},
                master_port_, whole_number(0, 65'535));
  flags_.assign(
      {"--local-addr", "HOST", "", "Name of this node in messages, unless its host name."},
      options_.local_address);
}

void CommandLine::add_failures() {
  flags_.group("Failures and signals");
  flags_.assign({"--max-restarts", "N", "0",
                 "How often all workers of all nodes are restarted after one failed or\na node "
                 "gave no heartbeat."},
                options_.max_restarts, whole_number(0, 1'000'000'000));
  flags_.assign({"--monitor-interval", "SECONDS", "0.1",
                 "How often to look for news of other nodes, at least twice a second.\nThe end of "
                 "an own worker is noticed at once."},
                options_.monitor_interval, [](Text text) {
                  return std::max(parse_seconds(text), std::chrono::milliseconds(1));
                });
  flags_.assign({"--signals-to-handle", "NAME,...", options_.signal_names,
                 "Signals that are forwarded to the workers before the launcher ends."},
                options_.signal_names, [this](Text text) {
                  options_.signals = parse_signals(text);
                  return text;
                });
  flags_.assign({"--shutdown-timeout", "SECONDS", "30",
                 "Between that signal, or SIGTERM after a failure, and SIGKILL.\nSecond variable: "
                 "TORCH_ELASTIC_SHUTDOWN_TIMEOUT."},
                options_.shutdown_timeout, parse_seconds);
  flags_.assign({"--exit-code", "launcher|worker", "launcher",
                 "Of a failed job: 1, or the code of the first worker that failed, 128\n+ signal. "
                 "Not in torchrun.",
                 false},
                exit_code_, one_of("launcher", "worker"));
}

void CommandLine::add_output() {
  flags_.group("Output");
  flags_.assign({"--log-dir", "FOLDER", "",
                 "Log files go to FOLDER/<run id>_<random>/attempt_<n>/<local rank>/,\nby default "
                 "to a temporary folder; /dev/null: no files."},
                options_.log_folder);
  flags_.assign({"-r,--redirects", "STREAMS", "0",
                 "Streams that go to log files: 0 none, 1 output, 2 errors, 3 both; for\nall "
                 "workers, or by local rank as in 0:3,12:1."},
                options_.redirects, parse_streams);
  flags_.assign({"-t,--tee", "STREAMS", "0",
                 "Streams that go to log files and, line by line with a prefix, to the\nconsole; "
                 "written as --redirects."},
                options_.tee, parse_streams);
  flags_.assign({"--log-line-prefix-template", "TEXT", "",
                 "Prefix of teed lines: ${role_name}, ${local_rank}, ${rank} and\n${hostname} are "
                 "replaced. [${role_name}${local_rank}]: by default."},
                options_.line_prefix);
  flags_.assign({"--local-ranks-filter", "N,...", "",
                 "Local ranks whose output reaches the console; all by default."},
                options_.console_local_ranks, parse_local_ranks);
}

/// Flags of torchrun's: accepted values, and why others are refused.
void CommandLine::add_unused() {
  flags_.group("Accepted without effect, or refused");
  flags_.unused({"--start-method", "METHOD", "spawn", "workers are always executed"},
                {"spawn", "fork", "forkserver"});
  flags_.unused({"--event-log-handler", "NAME", "null", "handlers are Python code"}, {"null"});
  flags_.unused({"--logs-specs", "NAME", "default",
                 "log destinations of other packages are Python code", false},
                {"default"});
  flags_.unused({"--numa-binding", "KIND", "",
                 "start numactl as PROGRAM, with your program behind it", false});
  flags_.unused({"--virtual-local-rank", "", "0", "let the program choose its GPU by LOCAL_RANK"},
                {"0", "false"});
  for (const char* name : {"--duplicate-stdout-filters", "--duplicate-stderr-filters"})
    flags_.unused({name, "TEXT", "", "filter the files below --log-dir"});
  flags_.unused({"--print-completion", "SHELL", "", "there are no completion scripts", false});
}

void CommandLine::choose_runner() {
  if (module_ && no_python_ && !run_path_)
    throw UsageError("--module and --no-python exclude each other");
  options_.runner = run_path_    ? Runner::python
                    : module_    ? Runner::module
                    : no_python_ ? Runner::direct
                                 : Runner::automatic;
}

void CommandLine::choose_rendezvous() {
  const bool has_place = !endpoint_.host.empty() || flags_.given("--master-port");
  if (standalone_ || (backend_ == "static" && !has_place && options_.nodes == 1))
    use_one_node();
  else
    backend_ == "static" ? use_static() : use_c10d();
  if (options_.endpoint_port == 0 && options_.nodes > 1)
    throw UsageError(
        "port 0 cannot be found by other nodes; give --master-port or --rdzv-endpoint");
}

void CommandLine::use_one_node() {
  if (options_.nodes != 1)
    throw UsageError("--standalone is for one node, but --nnodes asks for " +
                     std::to_string(options_.nodes));
  constexpr const char* alone = "on one node alone";
  warn_without_effect({"--rdzv-backend", "--node-rank", "--master-addr"}, alone);
  if (!endpoint_.host.empty() || endpoint_.port) warn_without_effect({"--rdzv-endpoint"}, alone);
  if (options_.run_id == "none") options_.run_id = hexadecimal(random_bytes(16));
}

void CommandLine::use_static() {
  options_.rendezvous = Rendezvous::fixed;
  options_.node_rank = node_rank_;
  if (node_rank_ >= options_.nodes)
    throw UsageError("--node-rank must be a whole number from 0 to " +
                     std::to_string(options_.nodes - 1) + ", not '" + std::to_string(node_rank_) +
                     "'");
  if (!endpoint_.host.empty() && !endpoint_.port)
    throw UsageError("--rdzv-endpoint must be HOST:PORT where --rdzv-backend is static");
  const Endpoint master{master_address_, static_cast<std::uint16_t>(master_port_)};
  const Endpoint& store = endpoint_.host.empty() ? master : endpoint_;
  options_.endpoint_host = store.host;
  options_.endpoint_port = *store.port;
}

void CommandLine::use_c10d() {
  constexpr std::uint16_t standard_port = 29'400;
  options_.endpoint_port = endpoint_.port.value_or(standard_port);
  warn_without_effect({"--node-rank", "--master-addr", "--master-port"}, "with c10d");
  if (options_.endpoint_port == 0 && options_.nodes == 1) return;  // the same as one node
  options_.rendezvous = Rendezvous::dynamic;
  if (!endpoint_.host.empty())
    options_.endpoint_host = endpoint_.host;
  else if (options_.nodes > 1)
    options_.warnings.push_back("without --rdzv-endpoint the nodes meet at localhost:" +
                                std::to_string(options_.endpoint_port) +
                                ", where other hosts cannot reach them");
}

void CommandLine::choose_secret() {
  try {
    options_.secret = store::job_secret(environment_);
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
  options_.secret_is_new = options_.secret.empty() && options_.rendezvous == Rendezvous::one_node;
  if (options_.secret_is_new) options_.secret = store::new_job_secret();
}

void CommandLine::warn_without_effect(std::initializer_list<const char*> names, Text where) {
  for (const std::string name : names)
    if (flags_.given(name)) options_.warnings.push_back(name + " has no effect " + where);
}

void CommandLine::read_other_variables() {
  constexpr const char* older_timeout = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  const std::string timeout = value_or(environment_, older_timeout, "");
  if (!flags_.given("--shutdown-timeout") && !timeout.empty())
    read_value(older_timeout, timeout,
               [this](Text text) { options_.shutdown_timeout = parse_seconds(text); });
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
  return CommandLine(environment).parse(argc, argv, out);
}

}  // namespace shampoo::launcher
