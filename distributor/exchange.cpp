// SPDX-License-Identifier: Apache-2.0
#include "distributor/exchange.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace shampoo {

Exchange::Exchange(Backend& backend, Communicator& communicator,
                   std::vector<std::int64_t> segment_bytes)
    : backend_(backend),
      communicator_(communicator),
      counts_(std::move(segment_bytes)),
      begins_(counts_.size()),
      headers_(counts_.size()) {
  if (communicator.memory() != backend.memory())
    throw std::invalid_argument(
        "communicator: its buffers must lie in the same kind of memory as the backend's arrays");
  if (static_cast<int>(counts_.size()) != communicator.size())
    throw std::invalid_argument("segment_bytes: must have " + std::to_string(communicator.size()) +
                                " entries, one per rank, got " + std::to_string(counts_.size()));
  const std::int64_t smallest = *std::ranges::min_element(counts_);
  if (smallest < static_cast<std::int64_t>(sizeof(Header)))
    throw std::invalid_argument("segment_bytes: must be at least " +
                                std::to_string(sizeof(Header)) + " for the header, got " +
                                std::to_string(smallest));
  std::exclusive_scan(counts_.begin(), counts_.end(), begins_.begin(), std::int64_t{0});
  const std::int64_t all = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  buffer_ = std::make_shared<kernels::Buffer>(backend, static_cast<std::size_t>(all));
}

char* Exchange::segment(std::size_t rank) const {
  return static_cast<char*>(buffer_->data()) + begins_[rank];
}

void Exchange::write(const Header& header, const kernels::Verdict* verdict) {
  char* const own = segment(static_cast<std::size_t>(communicator_.rank()));
  backend_.upload(own, &header, sizeof(Header));
  if (verdict) backend_.copy(own + offsetof(Header, verdict), verdict, sizeof(*verdict));
}

void Exchange::run() {
  if (counts_.size() > 1)
    communicator_.all_gather(buffer_->data(), counts_, {.owner = buffer_}).wait();
}

std::span<const Header> Exchange::headers() {
  for (std::size_t rank = 0; rank < counts_.size(); ++rank)
    backend_.download(&headers_[rank], segment(rank), sizeof(Header));
  backend_.synchronize();
  return headers_;
}

}  // namespace shampoo
