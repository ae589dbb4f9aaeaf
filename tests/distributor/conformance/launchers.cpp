// SPDX-License-Identifier: Apache-2.0
#include "launchers.h"

#include <cstdlib>
#include <filesystem>
#include <ostream>

#include "tests/support/temporary_folder.h"

namespace shampoo::launcher::test {

using shampoo::test::content_of;
namespace {

namespace fs = std::filesystem;

constexpr const char* debian_torchrun = "/usr/bin/torchrun";
constexpr const char* handled_signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

TestedLauncher shampoorun() {
  TestedLauncher launcher;
  launcher.name = "shampoorun";
  launcher.command = {SHAMPOORUN};
  launcher.own_variables = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                            {"TORCHELASTIC_SIGNALS_TO_HANDLE", handled_signals},
                            {"SHAMPOORUN_VERSION", SHAMPOO_VERSION}};
  launcher.redirects = "3";
  launcher.redirected = {"stderr.log", "stdout.log"};
  return launcher;
}

/// That of the environment, where there is one. Debian's, release 1.13 on Python 3.11, can neither
/// redirect nothing nor both streams; a local rank that does not exist (9:1) stands for nothing.
TestedLauncher torchrun() {
  TestedLauncher launcher;
  launcher.name = "torchrun";
  launcher.fresh_store = false;
  launcher.breaks_on_broken_report = true;
  launcher.leaves_orphans = true;
  launcher.loses_early_signals = true;
  launcher.nodes_fail_alone = true;
  if (const std::string python = python_of_environment(); !python.empty()) {
    launcher.command = {fs::path(python).parent_path() / "torchrun"};
    launcher.own_variables = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                              {"TORCHELASTIC_SIGNALS_TO_HANDLE", handled_signals}};
    launcher.redirects = "3";
    launcher.redirected = {"stderr.log", "stdout.log"};
    return launcher;
  }
  if (content_of(debian_torchrun).find("torch==1.13") == std::string::npos) {
    launcher.absence = "SHAMPOO_TORCH_PYTHON is not set, and " + std::string(debian_torchrun) +
                       " is not that of Debian 12, 1.13";
  } else {
    launcher.command = {debian_torchrun, "-r", "9:1", "-t", "9:1"};
  }
  launcher.own_variables = {{"NCCL_ASYNC_ERROR_HANDLING", "1"}};
  launcher.redirects = "1";
  launcher.redirected = {"stdout.log"};
  launcher.finds_a_port = false;
  return launcher;
}

}  // namespace

void PrintTo(const TestedLauncher& launcher, std::ostream* out) { *out << launcher.name; }

std::vector<TestedLauncher> tested_launchers() { return {shampoorun(), torchrun()}; }

std::string python_of_environment() {
  const char* python = std::getenv("SHAMPOO_TORCH_PYTHON");
  return python == nullptr ? "" : python;
}

std::string python_of_debian() {
  const bool has_torch = fs::exists("/usr/lib/python3/dist-packages/torch");
  return has_torch ? "/usr/bin/python3" : "";
}

}  // namespace shampoo::launcher::test
