// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/gather_state.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>

#include "distributor/text_consensus.h"
#include "shampoo/state/concatenate_shards.h"
#include "shampoo/state/export_state.h"
#include "shampoo/state/state_serialization.h"

namespace shampoo {

namespace {

/// The bytes of all tensors of one rank as one stream.
class ByteStream {
 public:
  explicit ByteStream(std::vector<StateTensor>& tensors) : tensors_(&tensors) {
    for (const StateTensor& tensor : tensors)
      left_ += tensor.count() * static_cast<std::int64_t>(size_of(tensor.type));
  }

  std::int64_t left() const { return left_; }

  void skip(std::int64_t count) { left_ -= count; }

  /// Calls copy(pointer, size) for each contiguous range of the next `count` bytes.
  template <typename Copy>
  void next(std::int64_t count, const Copy& copy) {
    left_ -= count;
    for (auto rest = static_cast<std::size_t>(count); rest > 0;) {
      std::vector<std::byte>& bytes = (*tensors_)[tensor_].bytes;
      const std::size_t some = std::min(rest, bytes.size() - at_);
      copy(bytes.data() + at_, some);
      rest -= some;
      at_ += some;
      if (at_ < bytes.size()) continue;
      ++tensor_;
      at_ = 0;
    }
  }

 private:
  std::vector<StateTensor>* tensors_;
  std::int64_t left_ = 0;
  std::size_t tensor_ = 0, at_ = 0;
};

/// Receives the state of all ranks in rounds of one all-gather each, or sends it to rank 0 alone.
class GatherBuffer {
 public:
  GatherBuffer(kernels::Backend& backend, Communicator& communicator, StateDict own, Gather gather,
               std::int64_t bytes_of_rank)
      : backend_(backend),
        communicator_(communicator),
        bytes_of_rank_(bytes_of_rank),
        everywhere_(gather == Gather::everywhere),
        receives_(everywhere_ || communicator.rank() == 0),
        own_(std::move(own)) {}

  /// Parses the description of every rank's state and allocates memory for the contents.
  void expect(const std::vector<std::string>& records, bool contents) {
    for (const std::string& record : records) dicts_.push_back(deserialize_description(record));
    for (StateDict& dict : dicts_) {
      streams_.emplace_back(dict.tensors);
      if (!contents || !receives_) continue;
      for (StateTensor& tensor : dict.tensors)
        tensor.bytes.resize(static_cast<std::size_t>(tensor.count()) * size_of(tensor.type));
    }
    std::int64_t most = 0, sum = 0;
    for (const ByteStream& stream : streams_) {
      most = std::max(most, stream.left());
      sum += std::min(bytes_of_rank_, stream.left());
    }
    rounds_ = contents ? (most + bytes_of_rank_ - 1) / bytes_of_rank_ : 0;
    if (rounds_ == 0) return;
    const auto own = std::min(bytes_of_rank_, ByteStream(own_.tensors).left());
    const auto all = static_cast<std::size_t>(receives_ ? sum : 0);
    const auto sent = static_cast<std::size_t>(own);
    host_.resize(std::max(all, sent));
    memory_ = std::make_shared<Memory>();
    memory_->received = kernels::Buffer(backend_, all);
    if (!everywhere_) memory_->sent = kernels::Buffer(backend_, sent);
  }

  /// Collective.
  void receive() {
    ByteStream sent(own_.tensors);
    for (std::int64_t round = 0; round < rounds_; ++round) {
      std::vector<std::int64_t> counts;
      for (const ByteStream& stream : streams_)
        counts.push_back(std::min(bytes_of_rank_, stream.left()));
      send(sent, counts);
      take(counts);
    }
  }

  StateDict finish() {
    if (!receives_) return {};
    StateDict full = std::move(dicts_.front());
    for (std::size_t r = 1; r < dicts_.size(); ++r) {
      std::ranges::move(dicts_[r].tensors, std::back_inserter(full.tensors));
      for (std::size_t p = 0; p < full.parameters.size(); ++p)  // equal on all ranks
        std::ranges::move(dicts_[r].parameters[p].blocks,
                          std::back_inserter(full.parameters[p].blocks));
    }
    sort_by_name(full);
    concatenate_shards(full);
    return full;
  }

 private:
  void send(ByteStream& sent, std::span<const std::int64_t> counts) {
    const auto rank = static_cast<std::size_t>(communicator_.rank());
    const std::int64_t before = std::reduce(counts.begin(), counts.begin() + communicator_.rank());
    std::byte* to = host_.data();
    sent.next(counts[rank], [&](const std::byte* bytes, std::size_t count) {
      std::memcpy(to, bytes, count);
      to += count;
    });
    auto* const received = static_cast<char*>(memory_->received.data());
    void* const place = everywhere_ ? received + before : memory_->sent.data();
    if (counts[rank] > 0)
      backend_.upload(place, host_.data(), static_cast<std::size_t>(counts[rank]));
    const BufferLease lease{.stream = {backend_.stream()}, .keep_alive = memory_};
    if (everywhere_) return communicator_.all_gather(received, counts, lease).wait();
    std::vector<std::int64_t> to_rank_0(counts.size()), from_all(counts.size());
    to_rank_0[0] = counts[rank];
    if (receives_) std::ranges::copy(counts, from_all.begin());
    communicator_.all_to_all(place, to_rank_0, received, from_all, lease).wait();
  }

  void take(std::span<const std::int64_t> counts) {
    if (receives_) {
      const std::int64_t all = std::reduce(counts.begin(), counts.end());
      backend_.download(host_.data(), memory_->received.data(), static_cast<std::size_t>(all));
    }
    backend_.synchronize();  // completes the copies to and from host_
    communicator_.check();
    const std::byte* from = host_.data();
    for (std::size_t r = 0; r < counts.size(); ++r) {
      if (receives_)
        streams_[r].next(counts[r], [&](std::byte* to, std::size_t count) {
          std::memcpy(to, from, count);
          from += count;
        });
      else
        streams_[r].skip(counts[r]);
    }
  }

  kernels::Backend& backend_;
  Communicator& communicator_;
  struct Memory {
    kernels::Buffer sent, received;
  };

  std::int64_t bytes_of_rank_;
  bool everywhere_, receives_;
  StateDict own_;
  std::vector<StateDict> dicts_;  ///< by rank
  std::vector<ByteStream> streams_;
  std::int64_t rounds_ = 0;
  std::vector<std::byte> host_;
  std::shared_ptr<Memory> memory_;
};

}  // namespace

StateDict gather_state(kernels::Backend& backend, Communicator& communicator,
                       StepProtocol& protocol, StateDict own, const StateDictOptions& options,
                       Gather gather, std::int64_t bytes_of_rank) {
  if (communicator.size() == 1) {
    concatenate_shards(own);
    return own;
  }
  std::vector<std::string> records;
  protocol.in_collective(collecting_state, [&] {
    records = gather_texts(backend, communicator, serialize_description(own));
  });
  GatherBuffer buffer(backend, communicator, std::move(own), gather, bytes_of_rank);
  protocol.vote(collecting_state, "request", [&] {
    buffer.expect(records, options.contents);
    return std::string();
  });
  protocol.in_collective(collecting_state, [&] { buffer.receive(); });
  return buffer.finish();
}

}  // namespace shampoo
