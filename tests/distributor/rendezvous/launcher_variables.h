// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "distributor/rendezvous/detection.h"

namespace shampoo::rendezvous {

inline Environment torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"MASTER_ADDR", "node1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RUN_ID", "none"}};
}

inline Environment open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "2"},
          {"OMPI_COMM_WORLD_SIZE", "3"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
}

inline Environment mpich() {
  return {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
}

inline Environment slurm() {
  return {{"SLURM_JOB_ID", "5000"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "3"},
          {"SLURM_NTASKS", "6"},
          {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_NODELIST", "n[007-008]"},
          {"SLURM_JOB_NODELIST", "a,n[007-008]"}};
}

inline Environment with(Environment variables, const Environment& more) {
  for (const auto& [name, value] : more) variables.insert_or_assign(name, value);
  return variables;
}

inline Environment without(Environment variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

inline Environment both(Environment one, const Environment& other) {
  return with(std::move(one), other);
}

/// "torchrun 5/8, local 1/4, store node1:29500 of the agent, job mine".
inline std::string text(const Detected& found) {
  return std::string(name_of(found.start)) + " " + std::to_string(found.rank) + "/" +
         std::to_string(found.size) + ", local " + std::to_string(found.local_rank) + "/" +
         (found.local_size ? std::to_string(*found.local_size) : "?") + ", store " + found.host +
         ":" + std::to_string(found.port) + (found.agent_hosts_store ? " of the agent" : "") +
         ", job " + found.job;
}

inline std::string fault(const Environment& variables, const JoinOptions& options = {}) {
  try {
    detect(variables, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no fault";
}

/// All texts stand in the message.
inline void expect_fault(const std::string& message,
                         std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) {
    EXPECT_NE(message.find(text), std::string::npos) << text << " is not in: " << message;
  }
}

}  // namespace shampoo::rendezvous
