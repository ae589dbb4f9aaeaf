// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/launcher_environment.h"

#include <array>
#include <charconv>
#include <stdexcept>

namespace shampoo::joining {
namespace {

constexpr std::array known = {"RANK",
                              "WORLD_SIZE",
                              "LOCAL_RANK",
                              "LOCAL_WORLD_SIZE",
                              "MASTER_ADDR",
                              "MASTER_PORT",
                              "TORCHELASTIC_RUN_ID",
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

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  std::string all;
  for (const std::string& text : texts) all.append(all.empty() ? "" : between).append(text);
  return all;
}

std::string alternatives(std::initializer_list<std::string_view> names) {
  std::string all;
  for (const std::string_view name : names) all.append(all.empty() ? "" : " or ").append(name);
  return all;
}

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::string Evidence::text_or(std::string_view name, std::string_view otherwise) const {
  const auto found = variables_.find(name);
  return std::string(found == variables_.end() || found->second.empty() ? otherwise
                                                                        : found->second);
}

std::optional<std::string> Evidence::text(std::initializer_list<std::string_view> names) {
  accepted_.push_back(alternatives(names));
  for (const std::string_view name : names) {
    if (has(name)) return text_or(name, {});
  }
  problem(alternatives(names) + " is missing");
  return std::nullopt;
}

std::optional<std::int64_t> Evidence::number(std::initializer_list<std::string_view> names,
                                             std::int64_t low, std::int64_t high, bool required) {
  const std::string range = std::to_string(low) + " to " + std::to_string(high);
  accepted_.push_back(alternatives(names) + " (" + range + ")");
  for (const std::string_view name : names) {
    if (!has(name)) continue;
    const std::optional<std::int64_t> value = number_of(text_or(name, {}));
    if (value && *value >= low && *value <= high) return value;
    problem(std::string(name) + " is not a number from " + range);
    return std::nullopt;
  }
  if (required) problem(alternatives(names) + " is missing");
  return std::nullopt;
}

std::string Evidence::found() const {
  std::vector<std::string> all;
  for (const char* name : known) {
    const auto variable = variables_.find(name);
    if (variable == variables_.end()) continue;
    all.push_back(std::string(name) + "=" + variable->second.substr(0, 200));
  }
  return all.empty() ? "none" : joined(all, ", ");
}

void Evidence::check() const {
  if (problems_.empty()) return;
  throw std::invalid_argument(
      "join: the variables of " + std::string(launcher_) +
      " are incomplete or contradict each other: " + joined(problems_, "; ") +
      ". Found: " + found() + ". Accepted: " + joined(accepted_, ", ") +
      ". JoinOptions::launcher chooses another launcher, Launcher::one_rank none.");
}

}  // namespace shampoo::joining
