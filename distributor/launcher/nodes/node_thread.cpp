// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/nodes/node_thread.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "distributor/communicator.h"
#include "distributor/launcher/event.h"
#include "distributor/launcher/nodes/job_store.h"
#include "distributor/launcher/nodes/node_group.h"
#include "distributor/system/host_name.h"
#include "distributor/system/thread_without_signals.h"

namespace shampoo::launcher {

namespace {

using Clock = std::chrono::steady_clock;

/// Between two looks at the store. Heartbeats are due whatever --monitor-interval says.
std::chrono::milliseconds pause_of(const LaunchOptions& options) {
  constexpr std::chrono::milliseconds least{1}, most{500};
  return std::clamp(std::min(options.monitor_interval, options.times.heartbeat / 2), least, most);
}

}  // namespace

struct NodeThread::Shared {
  explicit Shared(const LaunchOptions& given) : options(given) {}

  LaunchOptions options;
  Event wake_owner;

  std::mutex mutex;  // for all that follows
  std::condition_variable changed;
  std::optional<Report> report;  ///< to be sent
  bool stop = false;
  NodeEvents events;
  std::optional<JoinedNode> joined;
  bool finished = false, sending = false;
};

/// The thread's own.
class NodeThread::Loop {
 public:
  explicit Loop(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  void run() {
    try {
      join();
      follow();
    } catch (const CommunicationError& error) {
      fail((nodes_ ? "the node that hosts the job at " + job_.address + " is gone: " : "") +
           error.what());
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

 private:
  void join() {
    job_ = open_job_store(options_);
    Introduction own;
    own.host = options_.local_address.empty() ? host_name() : options_.local_address;
    own.pid = getpid();
    own.workers = options_.workers;
    own.role = options_.role;
    nodes_.emplace(*job_.store, options_, own, job_.is_host(), [server = job_.server.get()] {
      server->remove_keys_except(NodeGroup::key_prefix);
    });
    const std::uint16_t port = job_.is_host() ? job_.server->port() : options_.endpoint_port;
    const std::scoped_lock lock(shared_->mutex);
    shared_->joined = JoinedNode{nodes_->node(), nodes_->is_host(), port};
    shared_->wake_owner.set();
  }

  void follow() {
    const auto requested = [this] { return shared_->stop || shared_->report; };
    std::unique_lock lock(shared_->mutex);
    while (!shared_->stop) {
      const auto report = std::exchange(shared_->report, std::nullopt);
      shared_->sending = report.has_value();
      lock.unlock();
      if (report) nodes_->send(*report);
      std::vector<Order> orders;
      while (auto order = nodes_->tick(Clock::now())) orders.push_back(std::move(*order));
      lock.lock();
      publish(std::move(orders));
      if (options_.nodes == 1)
        shared_->changed.wait(lock, requested);
      else
        shared_->changed.wait_for(lock, pause_of(options_), requested);
    }
  }

  void publish(std::vector<Order> orders) {
    const bool finished = nodes_->finished();
    if (!orders.empty() || finished != shared_->finished) shared_->wake_owner.set();
    shared_->finished = finished;
    std::ranges::move(orders, std::back_inserter(shared_->events.orders));
    shared_->sending = false;
    shared_->changed.notify_all();
  }

  void fail(const std::string& why) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->events.failure = why;
    shared_->joined.reset();
    shared_->wake_owner.set();
    shared_->changed.notify_all();
  }

  std::shared_ptr<Shared> shared_;
  const LaunchOptions& options_ = shared_->options;
  JobStore job_;
  std::optional<NodeGroup> nodes_;
};

NodeThread::NodeThread(const LaunchOptions& options) : shared_(std::make_shared<Shared>(options)) {
  thread_without_signals([shared = shared_] { Loop(shared).run(); }).detach();
}

NodeThread::~NodeThread() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
}

int NodeThread::descriptor() const { return shared_->wake_owner.descriptor(); }

NodeEvents NodeThread::take() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->wake_owner.clear();
  return std::exchange(shared_->events, {});
}

std::optional<JoinedNode> NodeThread::joined() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->joined;
}

bool NodeThread::finished() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->finished;
}

void NodeThread::report(const Report& report) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->report = report;
  shared_->changed.notify_all();
}

void NodeThread::flush(std::chrono::milliseconds longest) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, longest, [this] {
    return !shared_->joined || (!shared_->report && !shared_->sending);
  });
}

}  // namespace shampoo::launcher
