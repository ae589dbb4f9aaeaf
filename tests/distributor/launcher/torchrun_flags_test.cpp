// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "distributor/launcher/command_line/launch_options.h"
#include "launch_options_of.h"

namespace shampoo::launcher::test {
namespace {

/// A flag of torchrun 2.15.
struct TorchrunFlag {
  const char* name;
  const char* value;     ///< one that works; empty: takes none
  const char* refused;   ///< one that is refused with a reason; empty: none
  const char* variable;  ///< empty: none
};

constexpr TorchrunFlag torchrun_flags[] = {
    {"nnodes", "1:1", "0", "PET_NNODES"},
    {"nproc-per-node", "3", "xpu", "PET_NPROC_PER_NODE"},
    {"rdzv-backend", "c10d", "etcd", "PET_RDZV_BACKEND"},
    {"rdzv-endpoint", "localhost:0", "localhost:70000", "PET_RDZV_ENDPOINT"},
    {"rdzv-id", "job", "", "PET_RDZV_ID"},
    {"rdzv-conf", "join_timeout=5", "join_timeout=", "PET_RDZV_CONF"},
    {"standalone", "", "", "PET_STANDALONE"},
    {"max-restarts", "2", "-1", "PET_MAX_RESTARTS"},
    {"monitor-interval", "0.5", "often", "PET_MONITOR_INTERVAL"},
    {"start-method", "fork", "thread", "PET_START_METHOD"},
    {"event-log-handler", "null", "console", "PET_EVENT_LOG_HANDLER"},
    {"role", "trainer", "", "PET_ROLE"},
    {"module", "", "", "PET_MODULE"},
    {"no-python", "", "", "PET_NO_PYTHON"},
    {"run-path", "", "", "PET_RUN_PATH"},
    {"log-dir", "/dev/null", "", "PET_LOG_DIR"},
    {"redirects", "0:1,12:3", "4", "PET_REDIRECTS"},
    {"tee", "3", "0:1,", "PET_TEE"},
    {"log-line-prefix-template", "$rank:", "", "PET_LOG_LINE_PREFIX_TEMPLATE"},
    {"local-ranks-filter", "0,2", "first", "PET_LOCAL_RANKS_FILTER"},
    {"duplicate-stdout-filters", "", "loss", "PET_DUPLICATE_STDOUT_FILTERS"},
    {"duplicate-stderr-filters", "", "loss", "PET_DUPLICATE_STDERR_FILTERS"},
    {"node-rank", "0", "1", "PET_NODE_RANK"},
    {"master-addr", "::1", "a b", "PET_MASTER_ADDR"},
    {"master-port", "1234", "70000", "PET_MASTER_PORT"},
    {"local-addr", "10.0.0.1", "", "PET_LOCAL_ADDR"},
    {"logs-specs", "default", "other", ""},
    {"numa-binding", "", "node", ""},
    {"signals-to-handle", "SIGUSR1", "SIGKILL", "PET_SIGNALS_TO_HANDLE"},
    {"shutdown-timeout", "5", "-5", "PET_SHUTDOWN_TIMEOUT"},
    {"virtual-local-rank", "", "1", "PET_VIRTUAL_LOCAL_RANK"},
    {"print-completion", "", "bash", ""},
};

/// --node-rank and the like are looked at only where nodes are fixed.
std::vector<std::string> with(std::vector<std::string> words, std::string_view name) {
  if (name == "node-rank" || name == "master-addr") words.insert(words.begin(), "--master-port=1");
  words.push_back("program");
  return words;
}

TEST(Flags, OfTorchrunAllWorkInBothSpellings) {
  for (const TorchrunFlag& torchrun : torchrun_flags) {
    if (std::string_view(torchrun.value).empty() && !std::string_view(torchrun.refused).empty())
      continue;
    std::string underscores = std::string("--") + torchrun.name;
    const std::string dashes = underscores;
    std::replace(underscores.begin() + 2, underscores.end(), '-', '_');
    for (const std::string& spelling : {dashes, underscores}) {
      std::vector<std::string> words{spelling};
      if (*torchrun.value != '\0') words.emplace_back(torchrun.value);
      EXPECT_EQ(usage_error_of(with(words, torchrun.name)), "") << spelling;
    }
  }
}

TEST(Flags, OfTorchrunNameThemselvesWhereAValueIsRefused) {
  for (const TorchrunFlag& torchrun : torchrun_flags) {
    if (std::string_view(torchrun.refused).empty()) continue;
    const std::string flag = std::string("--") + torchrun.name;
    const std::string error = usage_error_of(with({flag + "=" + torchrun.refused}, torchrun.name));
    EXPECT_TRUE(error.starts_with(flag)) << flag << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(Flags, TakeTheirDefaultsFromTorchrunsVariables) {
  for (const TorchrunFlag& torchrun : torchrun_flags) {
    if (*torchrun.variable == '\0' || *torchrun.refused == '\0') continue;
    if (std::string_view(torchrun.name) == "node-rank")
      continue;  // the flag is named, as it depends on --nnodes
    const std::string error =
        usage_error_of(with({}, torchrun.name), {{torchrun.variable, torchrun.refused}});
    EXPECT_TRUE(error.starts_with(torchrun.variable)) << torchrun.variable << ": " << error;
  }
}

TEST(Flags, AllAppearInTheHelp) {
  const std::string help = notice_of({"--help"});
  EXPECT_NE(help.find("Usage: shampoorun"), std::string::npos) << help;
  EXPECT_NE(help.find("--shutdown-timeout SECONDS [30]"), std::string::npos) << help;
  for (const TorchrunFlag& torchrun : torchrun_flags)
    EXPECT_NE(help.find("--" + std::string(torchrun.name)), std::string::npos) << torchrun.name;
}

}  // namespace
}  // namespace shampoo::launcher::test
