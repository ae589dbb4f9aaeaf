// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/launch_options.h"

#include <algorithm>

#include "distributor/launcher/completion.h"
#include "distributor/launcher/flag_values.h"
#include "distributor/launcher/normalise_arguments.h"
#include "distributor/launcher/processors.h"
#include "distributor/launcher/read_values.h"
#include "distributor/launcher/rendezvous_options.h"

namespace shampoo::launcher {
namespace {

constexpr int kMostWorkers = 65'535;

[[noreturn]] void refuse(const FlagValue& value, const std::string& reason) {
  throw UsageError(value.source + "=" + value.text + " is not supported: " + reason);
}

int count_workers(const FlagValue& value, const Environment& environment) {
  const std::string& text = value.text;
  if (text == "xpu") refuse(value, "only NVIDIA's GPUs can be counted; give a number");
  if (text == "cpu") return count_processors();
  if (text == "gpu" || text == "auto") {
    const int gpus = count_gpus(environment);
    if (gpus > 0) return gpus;
    if (text == "auto") return count_processors();
    throw UsageError(value.source + "=gpu, but this node shows no GPU");
  }
  if (text.find_first_not_of("-+0123456789 ") != std::string::npos) {
    throw UsageError(value.source + " must be auto, cpu, gpu or a number, not '" + text + "'");
  }
  return whole_number(value, 1, kMostWorkers);
}

/// What torchrun does with Python's own means.
void refuse_python(const FlagValues& values, LaunchOptions& options) {
  if (values.text("event-log-handler") != "null") {
    refuse(values.value("event-log-handler"), "handlers are Python code");
  }
  if (values.text("logs-specs") != "default") {
    refuse(values.value("logs-specs"), "log destinations of other packages are Python code");
  }
  if (values.given("numa-binding")) {
    refuse(values.value("numa-binding"), "start numactl as PROGRAM, with your program behind it");
  }
  const FlagValue method = values.value("start-method");
  if (method.text != "spawn" && method.text != "fork" && method.text != "forkserver") {
    throw UsageError(method.source + " must be spawn, fork or forkserver, not '" + method.text +
                     "'");
  }
  if (values.given("start-method")) options.warnings.push_back(method.source + " has no effect");
}

Runner read_runner(const FlagValues& values) {
  const bool module = values.on("module");
  if (values.on("run-path")) return Runner::python;
  if (module && values.on("no-python")) {
    throw UsageError(values.value("module").source + " and " + values.value("no-python").source +
                     " exclude each other");
  }
  if (module) return Runner::module;
  return values.on("no-python") ? Runner::direct : Runner::automatic;
}

void read_failures(const FlagValues& values, const Environment& environment,
                   LaunchOptions& options) {
  options.max_restarts = whole_number(values.value("max-restarts"), 0, 1'000'000'000);
  options.monitor_interval = seconds(values.value("monitor-interval"));
  if (options.monitor_interval.count() == 0)
    options.monitor_interval = std::chrono::milliseconds(1);
  options.signals = signal_numbers(values.value("signals-to-handle"));
  options.signal_names = values.text("signals-to-handle");

  FlagValue timeout = values.value("shutdown-timeout");
  constexpr const char* kOlderName = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  if (const std::string older = value_or(environment, kOlderName, "");
      !values.given("shutdown-timeout") && !older.empty()) {
    timeout = {older, kOlderName};
  }
  options.shutdown_timeout = seconds(timeout);

  const FlagValue exit_code = values.value("exit-code");
  if (exit_code.text != "launcher" && exit_code.text != "worker") {
    throw UsageError("--exit-code must be launcher or worker, not '" + exit_code.text + "'");
  }
  options.pass_on_exit_code = exit_code.text == "worker";
}

void read_output(const FlagValues& values, const Environment& environment, LaunchOptions& options) {
  if (!values.text("log-dir").empty()) options.log_folder = values.text("log-dir");
  options.redirects = stream_choice(values.value("redirects"));
  options.tee = stream_choice(values.value("tee"));
  options.console_local_ranks = local_ranks(values.value("local-ranks-filter"));
  options.duplicate_out = parts(values.value("duplicate-stdout-filters"));
  options.duplicate_error = parts(values.value("duplicate-stderr-filters"));
  constexpr std::string_view kPrefix = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
  if (values.given("log-line-prefix-template")) {
    options.line_prefix = values.text("log-line-prefix-template");
  } else if (const auto found = environment.find(kPrefix); found != environment.end()) {
    options.line_prefix = found->second;
  }
}

/// What torchrun offers where a variable asks for it.
void warn_of_missing_services(const Environment& environment, LaunchOptions& options) {
  if (value_or(environment, "TORCHELASTIC_ENABLE_FILE_TIMER", "") == "1")
    options.warnings.push_back(
        "TORCHELASTIC_ENABLE_FILE_TIMER has no effect: timers of workers are not watched");
  if (!value_or(environment, "TORCHELASTIC_HEALTH_CHECK_PORT", "").empty())
    options.warnings.push_back(
        "TORCHELASTIC_HEALTH_CHECK_PORT has no effect: there is no server to ask for health");
}

bool print_notice(const FlagValues& values, std::ostream& out) {
  if (values.given("help")) {
    out << help_text();
  } else if (values.given("version")) {
    out << "shampoorun " SHAMPOO_VERSION "\n";
  } else if (values.given("print-completion")) {
    out << completion_script(values.value("print-completion"));
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::optional<LaunchOptions> read_launch_options(int argc, const char* const* argv,
                                                 const Environment& environment,
                                                 std::ostream& out) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  NormalArguments arguments = normalise_arguments(words);
  const FlagValues values(arguments.flags, environment);
  if (print_notice(values, out)) return std::nullopt;

  LaunchOptions options;
  refuse_python(values, options);
  options.runner = read_runner(values);
  options.workers = count_workers(values.value("nproc-per-node"), environment);
  options.role = values.text("role");
  options.virtual_local_rank = values.on("virtual-local-rank");
  read_rendezvous(values, options);
  read_failures(values, environment, options);
  read_output(values, environment, options);
  warn_of_missing_services(environment, options);
  if (!arguments.program || arguments.program->empty()) {
    throw UsageError("what to start is missing: shampoorun [FLAGS] PROGRAM [ARGUMENTS]");
  }
  options.program = std::move(*arguments.program);
  options.arguments = std::move(arguments.arguments);
  return options;
}

}  // namespace shampoo::launcher
