// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/join.h"

#include <stdexcept>

#include "distributor/rendezvous/detection.h"
#include "distributor/rendezvous/join_gloo.h"
#include "distributor/rendezvous/join_nccl.h"
#include "distributor/transports/gloo/gloo.h"
#include "distributor/transports/mpi/mpi.h"
#include "distributor/transports/mpi/mpi_session.h"
#include "distributor/transports/nccl/nccl.h"

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

/// A program that has initialised MPI itself: nobody else says so where its mpirun is not known.
bool is_rank_of_mpi(const Detected& detected, const JoinOptions& options) {
  return detected.start == Start::alone && options.launcher == Launcher::automatic &&
         mpi_world_size() > 1;
}

/// Whether ranks can or must meet by MPI.
bool meet_by_mpi(const Detected& detected, const JoinOptions& options) {
  if (is_rank_of_mpi(detected, options)) return true;
  const bool meeting_point = !detected.host.empty() && detected.port != 0;
  return under_mpirun(detected) && (has_mpi() || !meeting_point);
}

Transport choose(const kernels::Backend& backend, const Detected& detected,
                 const JoinOptions& options) {
  if (options.transport != Transport::automatic) return options.transport;
  if (backend.memory() == Memory::cuda) return Transport::nccl;
  return meet_by_mpi(detected, options) ? Transport::mpi : Transport::gloo;
}

void check_memory(const kernels::Backend& backend, Transport transport) {
  const bool host = backend.memory() == Memory::host;
  if (host == (transport != Transport::nccl)) return;
  if (host)
    throw std::invalid_argument(
        "join: the backend has its arrays in host memory, but NCCL takes CUDA memory only: use "
        "cuda_backend(), or Transport::automatic");
  throw std::invalid_argument(
      std::string("join: the backend has its arrays in CUDA memory, but ") +
      (transport == Transport::mpi ? "MPI" : "Gloo") +
      " takes host memory only: use Transport::nccl, cpu_backend(), or a communicator of the "
      "caller's");
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

void check_meeting_point(const Detected& detected, std::string_view transport) {
  if (detected.size == 1 || (!detected.host.empty() && detected.port != 0)) return;
  throw std::invalid_argument(
      "join: " + std::string(transport) +
      " needs a host and a port (1 to 65535) where ranks meet, which " +
      std::string(name_of(detected.start)) +
      " did not tell: set JoinOptions::host and port, or MASTER_ADDR and MASTER_PORT");
}

std::unique_ptr<Communicator> connect(const kernels::Backend& backend, const Detected& detected,
                                      const JoinOptions& options) {
  const Transport transport = choose(backend, detected, options);
  check_memory(backend, transport);
  if (transport == Transport::mpi) return join_mpi(detected, options);
  if (transport == Transport::gloo) {
    check_meeting_point(detected, "Gloo");
    if (!has_gloo()) return gloo_communicator({}, nullptr);  // says how to get it
    return joining::join_gloo(detected, options);
  }
  if (!has_nccl()) return nccl_communicator_of(nullptr);  // says how to get it
  std::shared_ptr<Communicator> host;
  if (meet_by_mpi(detected, options))
    host = join_mpi(detected, options);
  else
    check_meeting_point(detected, "NCCL");
  return joining::join_nccl(detected, options, {backend.stream()}, host);
}

}  // namespace

std::unique_ptr<Communicator> join(kernels::Backend& backend, const JoinOptions& options) {
  check_deadline("connect_deadline", options.connect_deadline);
  check_deadline("deadline", options.deadline);
  const Detected detected = joining::detect(joining::process_variables(), options);
  const bool one = detected.size == 1 && !is_rank_of_mpi(detected, options);
  std::unique_ptr<Communicator> communicator = one && options.transport == Transport::automatic
                                                   ? single_rank_communicator(backend.memory())
                                                   : connect(backend, detected, options);
  communicator->set_deadline(options.deadline);
  return communicator;
}

}  // namespace shampoo
