// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/store/synchronized_store.h"

namespace shampoo {

/// How ranks tell each other texts, without zeros, before NCCL connects them. All calls are
/// collective, and throw CommunicationError.
class NcclMeeting {
 public:
  virtual ~NcclMeeting() = default;
  /// Those of all ranks.
  virtual std::vector<std::string> gather(const std::string& own) = 0;
  /// That of rank 0.
  virtual std::string broadcast(const std::string& own) = 0;
};

/// Over ranks in host memory, which must outlive it.
std::unique_ptr<NcclMeeting> meet_over(Communicator& ranks);

/// Over a store, below a prefix that nobody has used before; waits for a rank at most the deadline.
std::unique_ptr<NcclMeeting> meet_over(std::shared_ptr<SynchronizedStore> store, std::string prefix,
                                       int rank, int size, std::chrono::milliseconds deadline);

}  // namespace shampoo
