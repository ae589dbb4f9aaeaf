// SPDX-License-Identifier: Apache-2.0
#include "distributor/join/join.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "distributor/gloo.h"
#include "distributor/join/agreement.h"
#include "distributor/join/detection.h"
#include "distributor/join/meeting_point.h"
#include "distributor/join/own_address.h"
#include "distributor/library_version.h"
#include "distributor/mpi.h"

namespace shampoo {
namespace {

using joining::Detected;
using joining::Start;

void check_deadline(const std::string& name, std::chrono::milliseconds deadline) {
  if (deadline >= std::chrono::milliseconds(1)) return;
  throw std::invalid_argument("join: JoinOptions::" + name + " = " +
                              std::to_string(deadline.count()) + " ms, accepted: 1 ms or more");
}

bool under_mpirun(const Detected& detected) {
  return detected.start == Start::open_mpi || detected.start == Start::mpich;
}

Transport choose(const Detected& detected, const JoinOptions& options) {
  if (options.transport != Transport::automatic) return options.transport;
  const bool meeting_point = !detected.host.empty() && detected.port != 0;
  if (under_mpirun(detected) && (has_mpi() || !meeting_point)) return Transport::mpi;
  return Transport::gloo;
}

void check_memory(const kernels::Backend& backend, Transport transport) {
  if (backend.memory() == Memory::host) return;
  throw std::invalid_argument(
      std::string("join: the backend has its arrays in CUDA memory, but ") +
      (transport == Transport::mpi ? "MPI" : "Gloo") +
      " takes host memory only: use cpu_backend(), or a communicator of the caller's");
}

std::unique_ptr<Communicator> join_mpi(const Detected& detected, const JoinOptions& options) {
  std::unique_ptr<Communicator> communicator = mpi_communicator(options.connect_deadline);
  // A program that nobody of MPI's own started finds itself alone: another MPI's mpirun did it.
  const bool fits = communicator->rank() == detected.rank && communicator->size() == detected.size;
  if (detected.start != Start::alone && !fits) {
    throw std::invalid_argument(
        "join: " + std::string(name_of(detected.start)) + " says rank " +
        std::to_string(detected.rank) + " of " + std::to_string(detected.size) +
        ", MPI says rank " + std::to_string(communicator->rank()) + " of " +
        std::to_string(communicator->size()) + ": start the job with the mpirun of " +
        communicator->description());
  }
  return communicator;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

void check_meeting_point(const Detected& detected) {
  if (detected.size == 1 || (!detected.host.empty() && detected.port != 0)) return;
  throw std::invalid_argument(
      "join: Gloo needs a host and a port (1 to 65535) where ranks meet, which " +
      std::string(name_of(detected.start)) +
      " did not tell: set JoinOptions::host and port, or MASTER_ADDR and MASTER_PORT");
}

std::string own_address(const Detected& detected, const JoinOptions& options) {
  if (!options.own_address.empty()) return options.own_address;
  if (detected.size == 1) return "127.0.0.1";
  // Where ranks meet at a loopback address they are all here.
  const bool loopback =
      detected.host == "localhost" || detected.host == "::1" || detected.host.starts_with("127.");
  const bool several_hosts = !loopback && detected.local_size != detected.size;
  return joining::own_address_towards(detected.host, detected.port, several_hosts);
}

std::unique_ptr<Communicator> join_gloo(const Detected& detected, const JoinOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::shared_ptr<Store> store =
      joining::open_meeting_point(detected, options.connect_deadline);
  const auto passed =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  const joining::Hello self{.rank = detected.rank,
                            .size = detected.size,
                            .library = std::string(library_version()),
                            .build = options.build,
                            .host = host_name(),
                            .process = getpid()};
  const std::string generation = joining::agree(
      *store, self,
      {.job = detected.job,
       .deadline = std::max(options.connect_deadline - passed, std::chrono::milliseconds(1))});
  const Standing standing{
      .rank = detected.rank, .size = detected.size, .local_rank = detected.local_rank};
  return gloo_communicator(standing, store,
                           {.prefix = "/shampoo/gloo/" + generation + "/",
                            .host = own_address(detected, options),
                            .deadline = options.deadline});
}

}  // namespace

std::unique_ptr<Communicator> join(kernels::Backend& backend, const JoinOptions& options) {
  check_deadline("connect_deadline", options.connect_deadline);
  check_deadline("deadline", options.deadline);
  const Detected detected = joining::detect(joining::process_variables(), options);
  std::unique_ptr<Communicator> communicator;
  if (detected.size == 1 && options.transport == Transport::automatic) {
    communicator = one_rank(backend.memory());
  } else {
    const Transport transport = choose(detected, options);
    check_memory(backend, transport);
    if (transport == Transport::mpi) {
      communicator = join_mpi(detected, options);
    } else {
      check_meeting_point(detected);
      if (!has_gloo()) return gloo_communicator({}, nullptr);  // says how to get it
      communicator = join_gloo(detected, options);
    }
  }
  communicator->set_deadline(options.deadline);
  return communicator;
}

}  // namespace shampoo
