// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/join_nccl.h"

#include "distributor/rendezvous/rendezvous.h"
#include "distributor/transports/nccl/nccl.h"
#include "distributor/transports/nccl/nccl_device.h"

namespace shampoo::joining {

std::unique_ptr<Communicator> join_nccl(const Detected& detected, const JoinOptions& options,
                                        StreamRef stream, std::shared_ptr<Communicator> host) {
  if (!host && detected.size == 1) host = single_rank_communicator();
  if (host)
    return nccl_communicator_over(
        host, {.device = cuda_device_of(stream), .deadline = options.connect_deadline});
  int device = -1;
  const Meeting meeting = meet(detected, options, [&] { device = cuda_device_of(stream); });
  return nccl_communicator(detected.rank, detected.size, meeting.store,
                           {.device = device,
                            .deadline = meeting.left,
                            .prefix = "/shampoo/nccl/" + meeting.generation,
                            .store_server = detected.agent_hosts_store ? "" : "rank 0 of the job"});
}

}  // namespace shampoo::joining
