// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_transport.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "distributor/system/failure_timeout.h"
#include "distributor/system/time_left.h"
#include "distributor/transports/nccl/device_reducer.h"
#include "distributor/transports/nccl/watchdog.h"
#include "distributor/transports/transport.h"

namespace shampoo {

namespace {

/// NCCL's collectives, one launch each, on an internal stream that events order before and after
/// the stream of the lease.
///
/// Parts of equal size are gathered in place by ncclAllGather; otherwise their owners broadcast
/// them in place, in one group. Point-to-point messages would cross the network once per rank of
/// another host, whereas a broadcast crosses it once per host.
class NcclTransport final : public CollectiveTransport {
 public:
  explicit NcclTransport(NcclResources resources)
      : CollectiveTransport(resources.info),
        resources_(std::move(resources)),
        api_(*resources_.api) {
    CollectiveTransport::set_deadline(resources_.deadline);
    stream_ = api_.make_stream();
    barrier_byte_ = api_.allocate(1);
    watchdog_.emplace(
        *resources_.handle,
        Watchdog::Callbacks{
            .on_failure = [this](const CollectiveCall& call,
                                 const std::string& error) { on_failure(call, error); },
            .poll_remote_abort =
                [this] {
                  return resources_.registry ? resources_.registry->remote_abort_reason() : "";
                },
            .compare_slow_call = [this](const CollectiveCall* call) { return compare(call); }},
        deadline());
  }

  /// Waits for pending collectives, up to the deadline.
  ~NcclTransport() override {
    const bool is_idle = watchdog_->stop();
    watchdog_.reset();
    resources_.handle.reset();
    if (!is_idle) return;  // releasing memory would block forever
    api_.release(barrier_byte_);
    api_.destroy_stream(stream_);
  }

  std::string description() const override { return api_.description(); }

  void set_deadline(std::chrono::milliseconds deadline) override {
    CollectiveTransport::set_deadline(deadline);
    watchdog_->set_deadline(deadline);
  }

  void start_all_gather(const CollectiveCall& call, void* data, Counts counts,
                        const BufferLease& lease) override {
    char* const parts = static_cast<char*>(data);
    begin(call, lease, [&](Comm comm) {
      if (std::ranges::count(counts, counts[0]) == size()) {
        if (counts[0] > 0)
          api_.all_gather(parts + rank() * counts[0], parts, counts[0], comm, stream_);
        return;
      }
      std::int64_t from = 0;
      for (int r = 0; r < size(); from += counts[r++])
        if (counts[r] > 0) api_.broadcast(parts + from, counts[r], r, comm, stream_);
    });
  }

  void start_all_to_all(const CollectiveCall& call, const void* send, Counts send_counts,
                        void* receive, Counts receive_counts, const BufferLease& lease) override {
    begin(call, lease, [&](Comm comm) {
      const char* from = static_cast<const char*>(send);
      char* to = static_cast<char*>(receive);
      for (int r = 0; r < size(); from += send_counts[r], to += receive_counts[r], ++r) {
        if (send_counts[r] > 0) api_.send(from, send_counts[r], r, comm, stream_);
        if (receive_counts[r] > 0) api_.receive(to, receive_counts[r], r, comm, stream_);
      }
    });
  }

  void start_broadcast(const CollectiveCall& call, void* data, std::int64_t bytes, int root,
                       const BufferLease& lease) override {
    begin(call, lease, [&](Comm comm) {
      if (bytes > 0) api_.broadcast(data, bytes, root, comm, stream_);
    });
  }

  void start_barrier(const CollectiveCall& call, const BufferLease& lease) override {
    begin(call, lease, [&](Comm comm) { api_.barrier(barrier_byte_, comm, stream_); });
  }

  void finish(std::uint64_t ticket) override {
    NcclOperation* const operation = watchdog_->find(ticket);
    if (!operation) return;
    guard(operation->call, [&] { api_.wait(operation->stream, operation->end); });
    watchdog_->mark_waited_for(*operation);
  }

  void watch(StreamRef stream) override {
    failure().check();
    const CollectiveCall replay{.operation = "replay"};
    guard(replay, [&] {
      NcclOperation& operation = watchdog_->acquire(replay, {.stream = stream}, false);
      api_.record(operation.begin, stream.handle);
      api_.record(operation.end, stream.handle);
      operation.reached = Clock::now();
      operation.is_waited_for = true;
      watchdog_->supervise(operation, false);
    });
  }

  std::shared_ptr<void> allocate(std::int64_t bytes) override {
    if (bytes == 0 || !failure().message().empty()) return nullptr;
    const std::shared_ptr<void> memory(
        api_.allocate_registrable(static_cast<std::size_t>(bytes)),
        [api = resources_.api](void* taken) { api->release_registrable(taken); });
    if (!memory) return nullptr;
    void* const registration = resources_.handle->with(
        [&](Comm comm) { return api_.register_memory(comm, memory.get(), bytes); });
    if (!registration) return memory;
    return {
        memory.get(), [this, memory, registration](void*) {
          try {
            resources_.handle->with([&](Comm comm) { api_.deregister_memory(comm, registration); });
          } catch (const CommunicationError&) {  // destroyed with the NCCL communicator
          }
        }};
  }

  void gather_on_host(void* data, std::int64_t bytes) override {
    failure().check();
    guard({.operation = "split"}, [&] {
      gather_through_device(*resources_.handle, stream_, {rank(), size()}, data, bytes, end());
    });
  }

  std::shared_ptr<Reducer> make_reducer(const void*) override {
    return std::make_shared<DeviceReducer>(resources_.api);
  }

  std::unique_ptr<Communicator> split(const Subset& subset) override {
    std::unique_ptr<Communicator> result;
    if (hosts_.empty()) {
      std::vector<std::uint64_t> hosts(static_cast<std::size_t>(size()));
      hosts[static_cast<std::size_t>(rank())] = resources_.host_id;
      gather_on_host(hosts.data(), sizeof hosts.front());
      hosts_ = std::move(hosts);
    }
    const Clock::time_point end = Clock::now() + before_failure_detection(time_left(subset.end));
    guard({.operation = "split"}, [&] {
      // Leaked on failure, as NCCL may still write to it.
      auto made = std::make_unique<Comm>(nullptr);
      const int color = subset.members.empty() ? -1 : subset.color;
      try {
        resources_.handle->with([&](Comm comm) { api_.split(comm, color, subset.rank, *made); });
        resources_.handle->wait_until_ready(end, "split");
      } catch (...) {
        static_cast<void>(made.release());
        throw;
      }
      if (subset.members.empty()) return;
      if (!*made) throw CommunicationError("ncclCommSplit returned no communicator");
      auto handle = std::make_unique<NcclHandle>(resources_.api, *made);
      try {
        handle->wait_until_ready(end, "split");
      } catch (const CommunicationError& error) {
        handle->shut_down(error.what());
        throw;
      }
      NcclResources resources{.api = resources_.api,
                              .handle = std::move(handle),
                              .host = resources_.host,
                              .deadline = deadline(),
                              .host_id = resources_.host_id,
                              .info = info()};
      resources.info.rank = subset.rank;
      resources.info.size = static_cast<int>(subset.members.size());
      const auto lower = subset.members.first(static_cast<std::size_t>(subset.rank));
      resources.info.local_rank =
          static_cast<int>(std::ranges::count_if(lower, [&](const Member& member) {
            return hosts_[static_cast<std::size_t>(member.rank)] == resources_.host_id;
          }));
      if (resources_.registry)
        resources.registry = resources_.registry->part(
            "/split/" + std::to_string(subset.index) + "/" + std::to_string(subset.color),
            subset.rank, static_cast<int>(subset.members.size()));
      result = make_nccl_communicator(std::move(resources));
    });
    return result;
  }

  void abort(std::string_view reason) noexcept override {
    if (resources_.registry) resources_.registry->publish_abort(reason, deadline());
    resources_.handle->shut_down(reason);
    if (resources_.host) resources_.host->abort(reason);
  }

 private:
  using Clock = NcclHandle::Clock;
  using Comm = NcclApi::Comm;

  Clock::time_point end() const { return Clock::now() + deadline(); }

  /// After a failure the state of NCCL is unknown.
  template <typename Body>
  void guard(const CollectiveCall& call, const Body& body) {
    try {
      body();
    } catch (const CommunicationError& error) {
      on_failure(call, error.what());
      failure().check();
      throw;
    }
  }

  /// On the watchdog's thread.
  std::string compare(const CollectiveCall* call) {
    if (!resources_.registry) return {};
    if (call) return resources_.registry->enter_call(*call, comparison_patience(deadline()));
    resources_.registry->leave_call();
    return {};
  }

  /// A second failure meanwhile waits for the diagnosis of the first. The streams are released
  /// last, so that a thread that has waited for them sees the failure.
  void on_failure(const CollectiveCall& call, const std::string& error) noexcept {
    const std::lock_guard lock(failing_);
    if (failure().message().empty())
      failure().report(call, resources_.registry
                                 ? resources_.registry->diagnose(error, deadline(), call)
                                 : CommunicationError(error));
    resources_.handle->shut_down(error);
  }

  template <typename Enqueue>
  void begin(const CollectiveCall& call, const BufferLease& lease, const Enqueue& enqueue) {
    guard(call, [&] {
      const bool capturing = api_.is_capturing(lease.stream.handle);
      NcclOperation& operation = watchdog_->acquire(call, lease, capturing);
      api_.record(operation.begin, lease.stream.handle);
      api_.wait(stream_, operation.begin);
      resources_.handle->with([&](Comm comm) {
        NcclGroup group(api_);
        enqueue(comm);
        group.end();
      });
      resources_.handle->wait_until_ready(end(), call.operation);
      api_.record(operation.end, stream_);
      watchdog_->supervise(operation, capturing);
    });
  }

  NcclResources resources_;
  NcclApi& api_;
  NcclApi::Stream stream_ = nullptr;
  void* barrier_byte_ = nullptr;
  std::vector<std::uint64_t> hosts_;  ///< host_id of each rank; gathered by the first split
  std::mutex failing_;
  std::optional<Watchdog> watchdog_;  ///< destroyed first
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(NcclResources resources) {
  return std::make_unique<Communicator>(std::make_unique<NcclTransport>(std::move(resources)));
}

}  // namespace shampoo
