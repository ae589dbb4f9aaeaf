// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/node_thread.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "distributor/error.h"
#include "distributor/launcher/event.h"
#include "distributor/launcher/meeting_point.h"
#include "distributor/launcher/node_group.h"
#include "distributor/system/host_name.h"
#include "distributor/system/thread_without_signals.h"

namespace shampoo::launcher {

namespace {

using Clock = std::chrono::steady_clock;

Introduction introduce(const LaunchOptions& options, pid_t launcher) {
  const bool fixed = options.rendezvous == Rendezvous::fixed;
  Introduction result;
  result.host = options.local_address.empty() ? host_name() : options.local_address;
  result.pid = launcher;
  result.workers = options.workers;
  result.role = options.role;
  result.node_rank = fixed ? options.node_rank : -1;
  result.terms["--nnodes"] =
      std::to_string(options.least_nodes) + ":" + std::to_string(options.most_nodes);
  result.terms["--max-restarts"] = std::to_string(options.max_restarts);
  result.terms["--rdzv-backend"] = fixed ? "static" : "c10d";
  return result;
}

JobLimits limits_of(const LaunchOptions& options) {
  return {.least_nodes = options.least_nodes,
          .most_nodes = options.most_nodes,
          .max_restarts = options.max_restarts,
          .replaceable = options.rendezvous != Rendezvous::fixed,
          .join = options.times.join,
          .last_call = options.times.last_call};
}

/// Signs of life are due every heartbeat, whatever the user thinks of looking for others.
std::chrono::milliseconds pause_of(const LaunchOptions& options) {
  constexpr std::chrono::milliseconds least{1}, most{500};
  return std::clamp(std::min(options.monitor_interval, options.times.heartbeat / 2), least, most);
}

}  // namespace

struct NodeThread::Shared {
  LaunchOptions options;
  pid_t launcher = getppid();  ///< the guard: what the user started
  Event news;

  std::mutex mutex;
  std::condition_variable wake;
  // For the thread:
  std::optional<Report> report;
  bool stop = false;
  // From it:
  NodeNews waiting;
  std::optional<int> id;
  bool host = false, finished = false, delivered = true;

  explicit Shared(const LaunchOptions& given) : options(given) {}
  bool stopped() {
    const std::scoped_lock lock(mutex);
    return stop;
  }
};

/// What the thread does.
class NodeThread::Talk {
 public:
  explicit Talk(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  void run() {
    try {
      if (join()) follow();
    } catch (const CommunicationError& error) {
      lose(nodes_ ? "the node that hosts the job at " + place_ + " is gone: " + error.what()
                  : error.what());
    } catch (const Refused& error) {
      lose(nodes_ ? "the job at " + place_ + " refuses this node: " + error.what() : error.what());
    } catch (const std::exception& error) {
      lose(error.what());
    }
  }

 private:
  /// False where it is to stop.
  bool join() {
    auto meeting = meet(options_, [this] { return shared_->stopped(); });
    if (!meeting) return false;
    place_ = meeting->place;
    server_ = std::move(meeting->server);
    store_ = std::move(meeting->store);
    std::optional<Coordinator> coordinator;
    if (meeting->host) coordinator.emplace(limits_of(options_), Clock::now());
    nodes_.emplace(*store_, options_.run_id, introduce(options_, shared_->launcher), options_.times,
                   std::move(coordinator), [this](Order& order) { prepare(order); });
    const std::scoped_lock lock(shared_->mutex);
    shared_->id = nodes_->id();
    shared_->host = nodes_->host();
    shared_->news.set();
    return true;
  }

  void follow() {
    std::unique_lock lock(shared_->mutex);
    while (!shared_->stop) {
      const auto report = std::exchange(shared_->report, std::nullopt);
      lock.unlock();
      if (report) nodes_->report(*report);
      std::vector<Order> orders;
      while (auto order = nodes_->tick(Clock::now())) orders.push_back(std::move(*order));
      lock.lock();
      publish(std::move(orders), report.has_value());
      const auto called = [this] { return shared_->stop || shared_->report; };
      if (options_.most_nodes == 1)
        shared_->wake.wait(lock, called);
      else
        shared_->wake.wait_for(lock, pause_of(options_), called);
    }
  }

  void publish(std::vector<Order> orders, bool reported) {
    const bool finished = nodes_->finished();
    const bool news = reported || !orders.empty() || finished != shared_->finished;
    if (reported) shared_->delivered = !shared_->report;
    shared_->finished = finished;
    std::ranges::move(orders, std::back_inserter(shared_->waiting.orders));
    if (news) shared_->news.set();
  }

  void lose(const std::string& why) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->waiting.lost = why;
    shared_->news.set();
  }

  /// Opens the store that the workers of an attempt will use. A new one each time, so that no
  /// attempt finds keys of the last.
  void prepare(Order& order) {
    worker_store_.reset();
    StoreServerOptions server;
    if (options_.rendezvous == Rendezvous::fixed && options_.most_nodes == 1)
      server.port = options_.endpoint_port;  // otherwise the launchers use it
    worker_store_ = std::make_unique<StoreServer>(server);
    order.store_host = options_.local_address.empty() || options_.most_nodes == 1
                           ? options_.endpoint_host
                           : options_.local_address;
    order.store_port = worker_store_->port();
  }

  std::shared_ptr<Shared> shared_;
  const LaunchOptions& options_ = shared_->options;
  std::string place_;
  std::unique_ptr<StoreServer> server_, worker_store_;
  std::unique_ptr<Store> store_;
  std::optional<NodeGroup> nodes_;
};

NodeThread::NodeThread(const LaunchOptions& options) : shared_(std::make_shared<Shared>(options)) {
  thread_without_signals([shared = shared_] { Talk(shared).run(); }).detach();
}

NodeThread::~NodeThread() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->wake.notify_one();
}

int NodeThread::descriptor() const { return shared_->news.descriptor(); }

NodeNews NodeThread::take() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->news.clear();
  return std::exchange(shared_->waiting, {});
}

std::optional<int> NodeThread::id() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->id;
}

bool NodeThread::host() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->host;
}

bool NodeThread::finished() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->finished;
}

void NodeThread::report(const Report& report) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->report = report;
  shared_->delivered = false;
  shared_->wake.notify_one();
}

bool NodeThread::delivered() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->delivered;
}

}  // namespace shampoo::launcher
