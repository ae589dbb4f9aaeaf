// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/StreamGuard.h>
#include <torch/torch.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "shampoo/distributor/communicator.h"

namespace shampoo::libtorch {

/// Collectives by a backend of torch's process groups, whose failures become CommunicationErrors.
class C10dCollectives {
 public:
  using Group = c10::intrusive_ptr<c10d::Backend>;

  /// `device`: where the memory is.
  C10dCollectives(Group group, c10::Device device) : group_(std::move(group)), device_(device) {}

  /// One broadcast for each rank, as parts differ in size.
  void all_gather(void* data, Communicator::Counts counts, const CallContext& context) const {
    run(context, [&] {
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      auto* part = static_cast<char*>(data);
      for (std::size_t r = 0; r < counts.size(); part += counts[r++])
        if (counts[r] > 0) works.push_back(start_broadcast(part, counts[r], r, context));
      // What is under way uses the memory even if another part has failed.
      std::exception_ptr first;
      for (const auto& work : works) try {
          work->wait();
        } catch (...) {
          if (!first) first = std::current_exception();
        }
      if (first) std::rethrow_exception(first);
    });
  }

  void all_to_all(const void* send, Communicator::Counts send_counts, void* receive,
                  Communicator::Counts receive_counts, const CallContext& context) const {
    run(context, [&] {
      std::vector<std::int64_t> from(send_counts.begin(), send_counts.end());
      std::vector<std::int64_t> to(receive_counts.begin(), receive_counts.end());
      at::Tensor in = bytes(const_cast<void*>(send), sum(send_counts));
      at::Tensor out = bytes(receive, sum(receive_counts));
      c10d::AllToAllOptions options;
      options.timeout = context.deadline;
      group_->alltoall_base(out, in, to, from, options)->wait();
    });
  }

  void broadcast(void* data, std::int64_t count, int root, const CallContext& context) const {
    run(context, [&] { start_broadcast(data, count, root, context)->wait(); });
  }

  void barrier(const CallContext& context) const {
    run(context, [&] {
      if (device_.is_cpu()) return;  // the comparison is one
      c10d::BarrierOptions options;
      options.device = device_;
      options.timeout = context.deadline;
      group_->barrier(options)->wait();
    });
  }

 private:
  at::Tensor bytes(void* data, std::int64_t count) const {
    return at::from_blob(data, {count}, at::TensorOptions(at::kByte).device(device_));
  }
  static std::int64_t sum(Communicator::Counts counts) {
    std::int64_t all = 0;
    for (const std::int64_t count : counts) all += count;
    return all;
  }

  c10::intrusive_ptr<c10d::Work> start_broadcast(void* data, std::int64_t count, std::int64_t root,
                                                 const CallContext& context) const {
    std::vector<at::Tensor> tensors{bytes(data, count)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.timeout = context.deadline;
    return group_->broadcast(tensors, options);
  }

  /// Gloo ends a process whose peer sends other counts, so calls are compared before.
  void compare(const CallContext& context) const {
    at::Tensor own = at::full({1}, static_cast<std::int64_t>(context.call.signature), at::kLong);
    at::Tensor all = at::empty({group_->getSize()}, at::kLong);
    c10d::AllgatherOptions options;
    options.timeout = context.deadline;
    group_->_allgather_base(all, own, options)->wait();
    const auto differs = all.ne(own).nonzero();
    if (differs.numel() > 0)
      throw std::runtime_error("rank " + std::to_string(differs[0].item<std::int64_t>()) +
                               " is in another call than " + context.call.text());
  }

  /// A device's work is ordered with the stream of the call, which has the number that torch gives
  /// a stream from elsewhere; the host does not wait.
  template <typename Body>
  void run(const CallContext& context, const Body& body) const {
    try {
      std::optional<c10::StreamGuard> guard;
      if (device_.is_cpu())
        compare(context);
      else
        guard.emplace(c10::Stream(c10::Stream::UNSAFE, device_,
                                  reinterpret_cast<c10::StreamId>(context.stream.handle)));
      body();
    } catch (const c10::Error& error) {
      throw std::runtime_error(error.what_without_backtrace());
    }
  }

  Group group_;
  c10::Device device_;
};

/// A communicator over the ranks of a process group, which it shares: in host memory, as
/// ProcessGroupGloo is, or with `device` a GPU of ProcessGroupNCCL, whose work is ordered with the
/// backend's stream. Every rank of the group makes one, and uses the group for nothing else during
/// a call. Ranks in different calls are told apart in host memory only. split() needs a process
/// group of its own and throws. Throws std::invalid_argument for a null group and a device that
/// does not fit it.
inline std::unique_ptr<Communicator> c10d_communicator(c10::intrusive_ptr<c10d::Backend> group,
                                                       int local_rank = 0,
                                                       c10::Device device = at::kCPU) {
  if (!group) throw std::invalid_argument("c10d_communicator: group must not be null");
  const std::string backend = group->getBackendName();
  if (!device.is_cpu() && !(device.is_cuda() && device.has_index()))
    throw std::invalid_argument(
        "c10d_communicator: device must be CPU or a numbered CUDA device, got " + device.str());
  if (device.is_cpu() ? backend == "nccl" : backend == "gloo")
    throw std::invalid_argument("c10d_communicator: device must be " +
                                std::string(device.is_cpu() ? "a CUDA device" : "CPU") +
                                " for a process group of " + backend + ", got " + device.str());
  const RankInfo info{group->getRank(), group->getSize(), local_rank,
                      device.is_cpu() ? MemoryKind::host : MemoryKind::cuda};
  const std::string name = "c10d " + backend;
  const auto ranks = std::make_shared<C10dCollectives>(std::move(group), device);
  Collectives collectives{.rank_info = info, .description = name};
  collectives.all_gather = [ranks](void* data, auto counts, const CallContext& context) {
    ranks->all_gather(data, counts, context);
  };
  collectives.all_to_all = [ranks](const void* send, auto send_counts, void* receive,
                                   auto receive_counts, const CallContext& context) {
    ranks->all_to_all(send, send_counts, receive, receive_counts, context);
  };
  collectives.broadcast = [ranks](void* data, std::int64_t count, int root,
                                  const CallContext& context) {
    ranks->broadcast(data, count, root, context);
  };
  collectives.barrier = [ranks](const CallContext& context) { ranks->barrier(context); };
  return user_communicator(std::move(collectives));
}

}  // namespace shampoo::libtorch
