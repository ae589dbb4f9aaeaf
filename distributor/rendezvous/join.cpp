// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/join.h"

#include <sys/resource.h>

#include <cstdlib>
#include <stdexcept>

#include "distributor/rendezvous/detection.h"
#include "distributor/rendezvous/own_address.h"
#include "distributor/rendezvous/rendezvous.h"
#include "distributor/transports/gloo/gloo.h"
#include "distributor/transports/mpi/mpi.h"
#include "distributor/transports/mpi/mpi_module.h"
#include "distributor/transports/nccl/nccl.h"
#include "distributor/transports/nccl/nccl_over_ranks.h"
#include "distributor/transports/transport.h"

namespace shampoo {
namespace {

using rendezvous::Detected;
using rendezvous::Start;

void check_deadline(const std::string& name, std::chrono::milliseconds deadline) {
  if (deadline >= std::chrono::milliseconds(1) && deadline <= longest_deadline) return;
  throw std::invalid_argument("join: JoinOptions::" + name + " = " +
                              std::to_string(deadline.count()) + " ms, accepted: 1 ms to one year");
}

bool under_mpirun(const Detected& detected) {
  return detected.start == Start::open_mpi || detected.start == Start::mpich;
}

/// True in a program that has initialised MPI and was started by an unknown mpirun.
bool is_rank_of_mpi(const Detected& detected, const JoinOptions& options) {
  return detected.start == Start::alone && options.launcher == Launcher::automatic &&
         mpi_world_size() > 1;
}

/// True if ranks find each other through MPI, not through a store.
bool uses_mpi(const Detected& detected, const JoinOptions& options) {
  if (is_rank_of_mpi(detected, options)) return true;
  const bool has_store_address = !detected.host.empty() && detected.port != 0;
  if (detected.has_pmi && is_mpich()) return true;
  return under_mpirun(detected) && (has_mpi() || !has_store_address);
}

Transport choose(const Backend& backend, const Detected& detected, const JoinOptions& options) {
  if (options.transport != Transport::automatic) return options.transport;
  if (backend.memory_kind() == MemoryKind::cuda) return Transport::nccl;
  return uses_mpi(detected, options) ? Transport::mpi : Transport::gloo;
}

void check_memory(const Backend& backend, Transport transport) {
  const bool host = backend.memory_kind() == MemoryKind::host;
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
  // A process started by the mpirun of another MPI is alone in MPI_COMM_WORLD.
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

void check_store_address(const Detected& detected, std::string_view transport) {
  if (detected.size == 1 || (!detected.host.empty() && detected.port != 0)) return;
  throw std::invalid_argument(
      "join: " + std::string(transport) +
      " needs the host and the port (1 to 65535) of a store, which " +
      std::string(name_of(detected.start)) +
      " does not provide: set JoinOptions::host and port, or MASTER_ADDR and MASTER_PORT");
}

/// For messages about a store that does not answer.
std::string store_server(const Detected& detected) {
  return detected.agent_hosts_store ? "" : "rank 0 of the job";
}

/// Addresses at which the other ranks may reach this one.
std::vector<std::string> own_addresses(const Detected& detected, const JoinOptions& options) {
  if (!options.own_address.empty())
    return {rendezvous::chosen_address(options.own_address, "JoinOptions::own_address")};
  if (const char* listed = std::getenv("GLOO_SOCKET_IFNAME"); listed && *listed) {
    const std::string interfaces = listed;  // torch takes several
    return {rendezvous::chosen_address(interfaces.substr(0, interfaces.find(',')),
                                       "GLOO_SOCKET_IFNAME")};
  }
  if (detected.size == 1) return {"127.0.0.1"};
  return rendezvous::addresses_towards(detected.host, detected.port);
}

/// A store that this process serves may use half of the descriptors for a connection to every rank;
/// Gloo connects with every rank once an all_to_all() needs it.
void check_descriptor_limit(const Detected& detected, bool connects_ranks) {
  constexpr rlim_t others = 16;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const bool serves = detected.rank == 0 && !detected.agent_hosts_store;
  const rlim_t per_rank = serves ? 2 : connects_ranks ? 1 : 0;
  const rlim_t needed = static_cast<rlim_t>(detected.size) * per_rank + others;
  if (limit.rlim_cur >= needed) return;
  throw std::invalid_argument("join: this process may open " + std::to_string(limit.rlim_cur) +
                              " files (ulimit -n), but " + std::to_string(detected.size) +
                              " ranks need " + std::to_string(needed));
}

std::unique_ptr<Communicator> join_gloo(const Detected& detected, const JoinOptions& options) {
  check_store_address(detected, "Gloo");
  if (!has_gloo()) return gloo_communicator({}, nullptr);  // throws, naming the package
  const rendezvous::Rendezvous job = rendezvous::run_rendezvous(detected, options, "Gloo", [&] {
    check_descriptor_limit(detected, true);
    return own_addresses(detected, options);
  });
  return gloo_communicator(
      {.rank = detected.rank, .size = detected.size, .local_rank = detected.local_rank}, job.store,
      {.prefix = job.prefix + "/gloo",
       .host = job.address,
       .deadline = job.left,
       .store_server = store_server(detected)});
}

std::unique_ptr<Communicator> join_nccl(const Detected& detected, const JoinOptions& options,
                                        int device) {
  if (!has_nccl()) return nccl_communicator_of(nullptr);  // throws, naming the package
  std::shared_ptr<Communicator> host;
  if (uses_mpi(detected, options))
    host = join_mpi(detected, options);
  else if (detected.size == 1)
    host = single_rank_communicator();
  if (host)
    return nccl_communicator_over(host, {.device = device, .deadline = options.connect_deadline});
  check_store_address(detected, "NCCL");
  const rendezvous::Rendezvous job = rendezvous::run_rendezvous(detected, options, "NCCL", [&] {
    check_descriptor_limit(detected, false);
    return std::vector<std::string>();
  });
  return nccl_communicator(detected.rank, detected.size, job.store,
                           {.device = device,
                            .deadline = job.left,
                            .prefix = job.prefix + "/nccl",
                            .store_server = store_server(detected)});
}

std::unique_ptr<Communicator> connect(const Backend& backend, const Detected& detected,
                                      const JoinOptions& options) {
  const Transport transport = choose(backend, detected, options);
  check_memory(backend, transport);
  switch (transport) {
    case Transport::mpi:
      return join_mpi(detected, options);
    case Transport::nccl:
      return join_nccl(detected, options, backend.device());
    case Transport::gloo:
    case Transport::automatic:  // chosen before
      break;
  }
  return join_gloo(detected, options);
}

}  // namespace

std::unique_ptr<Communicator> join(Backend& backend, const JoinOptions& options) {
  check_deadline("connect_deadline", options.connect_deadline);
  check_deadline("deadline", options.deadline);
  const Detected detected = rendezvous::detect(read_environment(), options);
  const bool one = detected.size == 1 && !is_rank_of_mpi(detected, options);
  std::unique_ptr<Communicator> communicator = one && options.transport == Transport::automatic
                                                   ? single_rank_communicator(backend.memory_kind())
                                                   : connect(backend, detected, options);
  communicator->set_deadline(options.deadline);
  return communicator;
}

int local_rank_of_launcher(const JoinOptions& options) {
  return rendezvous::detect(read_environment(), options).local_rank;
}

}  // namespace shampoo
