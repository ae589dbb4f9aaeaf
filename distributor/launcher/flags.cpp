// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/flags.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace shampoo::launcher {
namespace {

using enum FlagKind;

constexpr std::string_view kWorkers = "Workers";
constexpr std::string_view kProgram = "Program";
constexpr std::string_view kNodes = "How nodes meet";
constexpr std::string_view kFailures = "Failures and signals";
constexpr std::string_view kOutput = "Output";
constexpr std::string_view kHelp = "Help";
constexpr std::string_view kOwn = "Not in torchrun";
constexpr std::string_view kRefused = "Accepted for torchrun's sake";

constexpr std::array kFlags = {
    Flag{"nnodes", 0, value, "N|MIN:MAX", "1:1", kWorkers,
         "Nodes of the job, or a range of them for a job that grows and shrinks (c10d only)."},
    Flag{"nproc-per-node", 0, value, "N|auto|cpu|gpu", "1", kWorkers,
         "Workers of this node: a number, one per processor, one per GPU, or auto: one per GPU, "
         "otherwise one per processor."},
    Flag{"role", 0, value, "NAME", "default", kWorkers,
         "ROLE_NAME of the workers, and the start of a teed line."},
    Flag{"virtual-local-rank", 0, toggle, "", "", kWorkers,
         "LOCAL_RANK=0 for every worker, each of which sees one GPU only."},

    Flag{"module", 'm', toggle, "", "", kProgram, "PROGRAM is a Python module."},
    Flag{"no-python", 0, toggle, "", "", kProgram,
         "Never start PROGRAM with Python, not even when its name ends in .py."},
    Flag{"run-path", 0, toggle, "", "", kProgram,
         "Start PROGRAM with Python, whatever its name; wins over --no-python. In a process of its "
         "own, as always."},

    Flag{"standalone", 0, toggle, "", "", kNodes,
         "One node that shares nothing with other jobs: a free port, and a run id of its own "
         "unless --rdzv-id gives one. So is a call without any flag of this section."},
    Flag{"rdzv-backend", 0, value, "static|c10d", "static", kNodes,
         "static: ranks of nodes are given, node 0 serves the store. c10d: nodes find each other "
         "at the endpoint; all of them must be started by shampoorun. etcd is refused."},
    Flag{"rdzv-endpoint", 0, value, "HOST[:PORT]", "", kNodes,
         "Where the store is. static: instead of --master-addr and --master-port. c10d: port "
         "29400 unless given."},
    Flag{"rdzv-id", 0, value, "ID", "none", kNodes, "Name of the job, the same on all nodes."},
    Flag{"rdzv-conf", 0, value, "KEY=VALUE,...", "", kNodes,
         "Seconds: timeout or join_timeout (600), last_call_timeout (30), keep_alive_interval or "
         "heartbeat_timeout (5); also keep_alive_max_attempt (3), is_host (0 or 1), store_type "
         "(tcp). close_timeout, read_timeout, rank and use_libuv have no effect."},
    Flag{"node-rank", 0, value, "N", "0", kNodes, "Rank of this node; static only."},
    Flag{"master-addr", 0, value, "HOST", "127.0.0.1", kNodes, "Node 0; static only."},
    Flag{"master-port", 0, value, "PORT", "29500", kNodes,
         "Of the store on node 0; static only. Giving it makes a job of one node static."},
    Flag{"local-addr", 0, value, "HOST", "", kNodes,
         "Address under which others reach this node. Its host name unless given."},

    Flag{
        "max-restarts", 0, value, "N", "0", kFailures,
        "How often all workers are started again after one failed. With c10d also after a node was "
        "lost, once another one has joined, for which join_timeout holds; with static a lost node "
        "fails the job."},
    Flag{"monitor-interval", 0, value, "SECONDS", "0.1", kFailures,
         "How often to look for new and lost nodes; at least twice a second. A worker's end is "
         "noticed at once."},
    Flag{"signals-to-handle", 0, value, "NAME,...", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", kFailures,
         "Signals that the launcher forwards to the workers before it ends."},
    Flag{"shutdown-timeout", 0, value, "SECONDS", "30", kFailures,
         "Between that signal, or SIGTERM after a failure, and SIGKILL. "
         "TORCH_ELASTIC_SHUTDOWN_TIMEOUT unless given."},

    Flag{"log-dir", 0, value, "FOLDER", "", kOutput,
         "Logs go to FOLDER/<run id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log}, "
         "error files beside them. A folder for temporary files unless given."},
    Flag{"redirects", 'r', value, "WHAT", "0", kOutput,
         "Streams that go to log files: 0 none, 1 output, 2 errors, 3 both; for all workers or by "
         "local rank: 0:3,12:1."},
    Flag{"tee", 't', value, "WHAT", "0", kOutput,
         "Streams that go to log files and, line by line behind a prefix, to the console; as "
         "--redirects."},
    Flag{"log-line-prefix-template", 0, value, "TEXT", "", kOutput,
         "Prefix of teed lines, with ${role_name}, ${local_rank}, ${rank} and ${hostname}. "
         "[${role_name}${local_rank}]: unless given."},
    Flag{"local-ranks-filter", 0, value, "N,...", "", kOutput,
         "Local ranks whose output reaches the console; all unless given."},
    Flag{"duplicate-stdout-filters", 0, value, "TEXT,...", "", kOutput,
         "Teed output lines that contain one of these go to attempt_<n>/filtered_stdout.log too."},
    Flag{"duplicate-stderr-filters", 0, value, "TEXT,...", "", kOutput,
         "The same for errors and filtered_stderr.log."},

    Flag{"start-method", 0, value, "METHOD", "spawn", kRefused,
         "spawn, fork and forkserver are all the same here."},
    Flag{"event-log-handler", 0, value, "NAME", "null", kRefused,
         "Only null; others are Python code."},
    Flag{"logs-specs", 0, value, "NAME", "default", kRefused,
         "Only default; others are Python code.", false},
    Flag{"numa-binding", 0, value, "KIND", "", kRefused,
         "Refused; let PROGRAM be numactl with the real program among its arguments.", false},

    Flag{"help", 'h', notice, "", "", kHelp, "Print this and exit.", false},

    Flag{"print-completion", 0, value, "bash|zsh", "", kHelp,
         "Print a completion script for a shell and exit.", false},
    Flag{"version", 0, notice, "", "", kOwn, "Print the version and exit.", false},
    Flag{"exit-code", 0, value, "launcher|worker", "launcher", kOwn,
         "Exit code of a failed job: 1 as torchrun, or that of the first worker that failed, 128 + "
         "signal where a signal ended it.",
         false},
};

}  // namespace

std::span<const Flag> all_flags() { return kFlags; }

std::string variable_of(const Flag& flag) {
  std::string variable = "PET_" + std::string(flag.name);
  std::ranges::transform(variable, variable.begin(), [](unsigned char letter) {
    return static_cast<char>(letter == '-' ? '_' : std::toupper(letter));
  });
  return variable;
}

}  // namespace shampoo::launcher
