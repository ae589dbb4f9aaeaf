// SPDX-License-Identifier: Apache-2.0
#include "distributor/exchange.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace shampoo {

Exchange::Exchange(kernels::Backend& backend, Communicator& communicator,
                   std::vector<std::int64_t> segment_bytes, std::int64_t capacity)
    : backend_(backend),
      communicator_(communicator),
      counts_(std::move(segment_bytes)),
      begins_(counts_.size()),
      headers_(counts_.size()),
      settled_(backend) {
  if (communicator.memory() != backend.memory_kind())
    throw std::invalid_argument(
        "communicator: must work in the backend's memory, as that of join(backend) does");
  bytes_ = std::max(lay_out(), capacity);
  buffer_ = communicator.allocate(bytes_);
  if (!buffer_) {
    const auto own = std::make_shared<kernels::Buffer>(backend, static_cast<std::size_t>(bytes_));
    buffer_ = {own, own->data()};
  }
  upload_begins();
}

Exchange::Exchange(const Exchange& other, std::vector<std::int64_t> segment_bytes)
    : backend_(other.backend_),
      communicator_(other.communicator_),
      counts_(std::move(segment_bytes)),
      begins_(counts_.size()),
      bytes_(other.bytes_),
      buffer_(other.buffer_),
      headers_(counts_.size()),
      settled_(backend_) {
  if (const std::int64_t all = lay_out(); all > other.bytes())
    throw std::invalid_argument("segment_bytes: must have a sum of at most " +
                                std::to_string(other.bytes()) + ", got " + std::to_string(all));
  upload_begins();
}

/// Total bytes.
std::int64_t Exchange::lay_out() {
  if (static_cast<int>(counts_.size()) != communicator_.size())
    throw std::invalid_argument("segment_bytes: must have " + std::to_string(communicator_.size()) +
                                " entries, one per rank, got " + std::to_string(counts_.size()));
  const std::int64_t smallest = *std::ranges::min_element(counts_);
  if (smallest < static_cast<std::int64_t>(sizeof(SegmentHeader)))
    throw std::invalid_argument("segment_bytes: must be at least " +
                                std::to_string(sizeof(SegmentHeader)) + " for the header, got " +
                                std::to_string(smallest));
  std::exclusive_scan(counts_.begin(), counts_.end(), begins_.begin(), std::int64_t{0});
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

void Exchange::upload_begins() {
  device_begins_ = kernels::Buffer(backend_, begins_.size() * sizeof(std::int64_t));
  backend_.upload(device_begins_.data(), begins_.data(), device_begins_.bytes());
}

char* Exchange::segment(std::size_t rank) const {
  return static_cast<char*>(buffer_.get()) + begins_[rank];
}

void Exchange::write(const SegmentHeader& header) {
  own_ = header;
  backend_.upload(segment(static_cast<std::size_t>(communicator_.rank())), &own_,
                  sizeof(SegmentHeader));
}

void Exchange::write(const SegmentHeader* header, const kernels::ScanResult* scan) {
  char* const own = segment(static_cast<std::size_t>(communicator_.rank()));
  backend_.copy(own, header, sizeof(SegmentHeader));
  if (scan != nullptr) backend_.copy(own + offsetof(SegmentHeader, scan), scan, sizeof(*scan));
}

void Exchange::write_direction(const std::int32_t* non_finite_direction) {
  backend_.copy(segment(static_cast<std::size_t>(communicator_.rank())) +
                    offsetof(SegmentHeader, non_finite_direction),
                non_finite_direction, sizeof(std::int32_t));
}

void Exchange::run() {
  if (counts_.size() > 1)
    communicator_
        .all_gather(buffer_.get(), counts_, {.stream = {backend_.stream()}, .keep_alive = buffer_})
        .wait();
}

void Exchange::download_headers(SegmentHeader* to) {
  constexpr auto size = std::int64_t{sizeof(SegmentHeader)};
  if (std::ranges::all_of(counts_, [](std::int64_t count) { return count == size; }))
    return backend_.download(to, segment(0), counts_.size() * sizeof(SegmentHeader));
  for (std::size_t rank = 0; rank < counts_.size(); ++rank)
    backend_.download(&to[rank], segment(rank), sizeof(SegmentHeader));
}

std::span<const SegmentHeader> Exchange::headers() {
  download_headers(headers_.data());
  backend_.synchronize();
  communicator_.check();
  return headers_;
}

void Exchange::gate(SegmentHeader* gathered, std::int32_t* proceed) {
  backend_.compare({.array = buffer_.get(),
                    .begins = static_cast<const std::int64_t*>(device_begins_.data()),
                    .count = static_cast<std::int64_t>(counts_.size()),
                    .bytes = sizeof(SegmentHeader),
                    .first_equal = 0,
                    .last_equal = offsetof(SegmentHeader, status),
                    .flag = offsetof(SegmentHeader, scan) + offsetof(kernels::ScanResult, proceed)},
                   gathered, proceed);
}

}  // namespace shampoo
