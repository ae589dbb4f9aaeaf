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
      headers_(counts_.size()),
      settled_(backend) {
  if (communicator.memory() != backend.memory_kind())
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
  struct Prepared {
    kernels::Buffer memory;
    std::shared_ptr<const void> preparation;
  };
  const auto prepared = std::make_shared<Prepared>();
  prepared->memory = kernels::Buffer(backend, static_cast<std::size_t>(all));
  prepared->preparation = communicator.prepare(prepared->memory.data(), all);
  buffer_ = {prepared, &prepared->memory};
  begins_there_ = kernels::Buffer(backend, begins_.size() * sizeof(std::int64_t));
  backend.upload(begins_there_.data(), begins_.data(), begins_there_.bytes());
}

char* Exchange::segment(std::size_t rank) const {
  return static_cast<char*>(buffer_->data()) + begins_[rank];
}

void Exchange::write(const Header& header) {
  own_ = header;
  backend_.upload(segment(static_cast<std::size_t>(communicator_.rank())), &own_, sizeof(Header));
}

void Exchange::write(const Header* header, const kernels::ScanResult* verdict,
                     std::size_t verdict_bytes) {
  char* const own = segment(static_cast<std::size_t>(communicator_.rank()));
  backend_.copy(own, header, sizeof(Header));
  if (verdict_bytes > 0) backend_.copy(own + offsetof(Header, verdict), verdict, verdict_bytes);
}

void Exchange::run() {
  if (counts_.size() > 1)
    communicator_
        .all_gather(buffer_->data(), counts_, {.stream = {backend_.stream()}, .owner = buffer_})
        .wait();
}

std::span<const Header> Exchange::headers() {
  for (std::size_t rank = 0; rank < counts_.size(); ++rank)
    backend_.download(&headers_[rank], segment(rank), sizeof(Header));
  backend_.synchronize();
  communicator_.check();
  return headers_;
}

void Exchange::gate(bool compares_verdicts, Header* gathered, std::int32_t* proceed) {
  backend_.compare({.array = buffer_->data(),
                    .begins = static_cast<const std::int64_t*>(begins_there_.data()),
                    .count = static_cast<std::int64_t>(counts_.size()),
                    .bytes = sizeof(Header),
                    .first_equal = compares_verdicts ? 0 : std::int64_t{offsetof(Header, magic)},
                    .last_equal = offsetof(Header, finding),
                    .flag = offsetof(Header, verdict) + offsetof(kernels::ScanResult, proceed)},
                   gathered, proceed);
}

}  // namespace shampoo
