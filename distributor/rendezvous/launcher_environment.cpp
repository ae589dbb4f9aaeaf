// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/launcher_environment.h"

#include <array>
#include <charconv>
#include <stdexcept>

#include "grouping/joined.h"

namespace shampoo::rendezvous {
namespace {

constexpr std::array known_variables = {"RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT",
                                        "TORCHELASTIC_USE_AGENT_STORE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "MPI_LOCALRANKID",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_JOB_ID",
                                        "SLURM_STEP_ID",
                                        "SLURM_PROCID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS",
                                        "SLURM_LOCALID",
                                        "SLURM_STEP_NUM_NODES",
                                        "SLURM_NNODES",
                                        "SLURM_STEP_NODELIST",
                                        "SLURM_JOB_NODELIST"};

std::string alternatives(LauncherEnvironment::Names names) {
  std::string all;
  for (const std::string_view name : names)
    if (!name.empty()) all.append(all.empty() ? "" : " or ").append(name);
  return all;
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::string_view LauncherEnvironment::value(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::string_view{} : found->second;
}

std::string LauncherEnvironment::text(Names names) {
  accepted_.push_back(alternatives(names));
  for (const std::string_view name : names)
    if (has(name)) return std::string(value(name));
  add_problem(alternatives(names) + " is missing");
  return {};
}

std::optional<std::int64_t> LauncherEnvironment::number(Names names, std::int64_t low,
                                                        std::int64_t high, bool required) {
  const std::string range = std::to_string(low) + " to " + std::to_string(high);
  if (alternatives(names).empty()) return std::nullopt;
  accepted_.push_back(alternatives(names) + " (" + range + ")");
  for (const std::string_view name : names) {
    if (!has(name)) continue;
    const std::optional<std::int64_t> number = number_of(value(name));
    if (number && *number >= low && *number <= high) return number;
    add_problem(std::string(name) + " is not a number from " + range);
    return std::nullopt;
  }
  if (required) add_problem(alternatives(names) + " is missing");
  return std::nullopt;
}

std::string LauncherEnvironment::found() const {
  std::vector<std::string> all;
  for (const char* name : known_variables) {
    const auto variable = variables_.find(name);
    if (variable == variables_.end()) continue;
    all.push_back(std::string(name) + "=" + variable->second.substr(0, 200));
  }
  return all.empty() ? "none" : grouping::joined(all, ", ");
}

void LauncherEnvironment::check() const {
  if (problems_.empty()) return;
  throw std::invalid_argument(
      "join: the variables of " + std::string(launcher_) +
      " are incomplete or contradict each other: " + grouping::joined(problems_, "; ") +
      ". Found: " + found() + ". Accepted: " + grouping::joined(accepted_, ", ") +
      ". JoinOptions::launcher chooses another launcher, Launcher::one_rank none.");
}

}  // namespace shampoo::rendezvous
