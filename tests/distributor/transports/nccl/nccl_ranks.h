// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "distributor/communicator.h"
#include "distributor/transports/nccl/bootstrap.h"
#include "tests/distributor/transports/leased_memory.h"
#include "tests/distributor/transports/nccl/nccl_double.h"

namespace shampoo::test {

/// One rank of a job in which NCCL is played.
struct NcclRank {
  std::unique_ptr<Communicator> ranks;
  NcclDouble& nccl;
  Communicator& host;  ///< the same ranks, on threads
};

/// Runs body on `n` threads, each with its rank of one communicator.
inline void run_nccl_ranks(int n, std::chrono::milliseconds deadline,
                           const std::function<void(NcclRank&)>& body) {
  NcclJob job;
  run_ranks(n, [&](Communicator& host) {
    const auto nccl = std::make_shared<NcclDouble>(job, "device " + std::to_string(host.rank()));
    auto ranks = connect_nccl(make_bootstrap(host), {.position = {host.rank(), host.size()},
                                                     .make_api = [&] { return nccl; },
                                                     .deadline = deadline});
    NcclRank rank{std::move(ranks), *nccl, host};
    body(rank);
  });
}

/// Memory behind the default stream of a device that is played.
class PlayedMemory final : public LeasedMemory {
 public:
  explicit PlayedMemory(NcclDouble& nccl) : nccl_(nccl) {}

  void write(void* to, const void* from_host, std::size_t bytes) override {
    nccl_.stream().synchronize();
    LeasedMemory::write(to, from_host, bytes);
  }
  void read(void* to_host, const void* from, std::size_t bytes) override {
    nccl_.stream().synchronize();
    LeasedMemory::read(to_host, from, bytes);
  }

 private:
  NcclDouble& nccl_;
};

}  // namespace shampoo::test
