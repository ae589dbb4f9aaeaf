// SPDX-License-Identifier: Apache-2.0
#include "distributor/exchange.h"

#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace shampoo {

Exchange::Exchange(Backend& backend, Communicator& communicator,
                   std::vector<std::int64_t> segment_bytes)
    : communicator_(communicator), counts_(std::move(segment_bytes)), begins_(counts_.size()) {
  if (communicator.memory() != backend.memory())
    throw std::invalid_argument(
        "communicator: its buffers must lie in the same kind of memory as the backend's arrays");
  if (static_cast<int>(counts_.size()) != communicator.size())
    throw std::invalid_argument("segment_bytes: must have " + std::to_string(communicator.size()) +
                                " entries, one per rank, got " + std::to_string(counts_.size()));
  std::exclusive_scan(counts_.begin(), counts_.end(), begins_.begin(), std::int64_t{0});
  const std::int64_t all = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  buffer_ = kernels::Buffer(backend, static_cast<std::size_t>(all));
}

void Exchange::run() {
  if (counts_.size() > 1) communicator_.all_gather(buffer_.data(), counts_, {}).wait();
}

}  // namespace shampoo
