// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/nodes/node_thread.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "distributor/communicator.h"
#include "distributor/launcher/nodes/node_group.h"
#include "distributor/store/socket.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "distributor/system/event.h"
#include "distributor/system/host_name.h"
#include "distributor/system/thread_without_signals.h"

namespace shampoo::launcher {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The one store of a job, for launchers and workers.
struct JobStore {
  std::unique_ptr<StoreServer> server;  ///< on the host only, which decides for all
  std::unique_ptr<Store> store;

  bool is_host() const { return server != nullptr; }
};

/// True for this machine's name, and for an address of its interfaces.
bool is_here(const std::string& host) {
  return host == host_name() || !store::own_addresses(host, false).empty();
}

StoreServerOptions server_options(const LaunchOptions& options) {
  const bool one_node = options.rendezvous == Rendezvous::one_node;
  return {.port = options.endpoint_port,
          .host = one_node ? "localhost" : options.endpoint_host,
          .several_hosts = options.nodes > 1,
          .secret = options.secret,
          .trusts_same_user = one_node};
}

/// Null where another node serves.
std::unique_ptr<StoreServer> serve(const LaunchOptions& options) {
  const StoreServerOptions server = server_options(options);
  if (options.rendezvous != Rendezvous::dynamic)
    return options.node_rank == 0 ? std::make_unique<StoreServer>(server) : nullptr;
  if (!options.is_host.value_or(is_here(options.endpoint_host))) return nullptr;
  try {
    return std::make_unique<StoreServer>(server);
  } catch (const std::system_error& error) {
    const bool other_serves = error.code() == std::errc::address_in_use && !options.is_host;
    if (!other_serves) throw;
    return nullptr;
  }
}

std::unique_ptr<Store> connect(const LaunchOptions& options, const StoreServer* server) {
  constexpr milliseconds one_attempt{1000}, local{10'000};
  if (server)
    return connect_store(server->own_address(), server->port(), local, StoreProtocol::torch_2,
                         options.secret);
  return connect_store(options.endpoint_host, options.endpoint_port,
                       std::min(one_attempt, options.times.join), StoreProtocol::automatic,
                       options.secret);
}

/// Each worker is a connection, and torch opens several for each.
void check_connections(const LaunchOptions& options, const StoreServer& server) {
  const auto needed = static_cast<std::size_t>(options.nodes) * (options.workers + 1);
  if (needed <= server.most_connections()) return;
  throw Refused("the store takes " + std::to_string(server.most_connections()) +
                " connections, half of the open files that this process may have (ulimit -Hn), but "
                "the job needs " +
                std::to_string(needed));
}

/// Serves the store or connects to it. Waits for it, at most options.times.join. Tries to serve
/// before each attempt to connect: names become known late, and ports free. Throws Refused where
/// nothing answers, std::system_error where the host's port is taken.
JobStore open_job_store(const LaunchOptions& options) {
  const auto end = Clock::now() + options.times.join;
  JobStore result;
  while (!result.store) {
    result.server = serve(options);
    try {
      if (result.is_host()) check_connections(options, *result.server);
      result.store = connect(options, result.server.get());
    } catch (const CommunicationError& error) {
      if (result.is_host()) throw;
      if (Clock::now() >= end)
        throw Refused("no job answers within " + std::to_string(options.times.join.count()) +
                      " ms: " + error.what());
    }
  }
  const milliseconds deadline = options.times.heartbeat * options.times.heartbeats_missed;
  result.store->set_deadline(std::max(deadline, milliseconds(1000)));
  return result;
}

/// Between two looks at the store. Heartbeats are due whatever --monitor-interval says.
milliseconds pause_of(const LaunchOptions& options) {
  constexpr milliseconds least{1}, most{500};
  return std::clamp(std::min(options.monitor_interval, options.times.heartbeat / 2), least, most);
}

}  // namespace

/// Shared by the thread, which calls run(), and its owner.
struct NodeThread::Shared {
  explicit Shared(const LaunchOptions& given) : options(given) {}

  void run() {
    try {
      join();
      follow();
    } catch (const CommunicationError& error) {
      const std::string place = store::place_of(options.endpoint_host, options.endpoint_port);
      fail((nodes ? "the node that hosts the job at " + place + " is gone: " : "") + error.what());
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  void join() {
    job = open_job_store(options);
    const Introduction own{options.local_address.empty() ? host_name() : options.local_address,
                           getpid(), options.workers, options.role};
    nodes.emplace(*job.store, options, own, job.is_host(), [server = job.server.get()] {
      server->remove_keys_except(NodeGroup::key_prefix);
    });
    const std::uint16_t port = job.is_host() ? job.server->port() : options.endpoint_port;
    const std::scoped_lock lock(mutex);
    events.joined = JoinedNode{nodes->node(), nodes->is_host(), port};
    wake_owner.set();
  }

  void follow() {
    const auto requested = [this] { return stop || report; };
    std::unique_lock lock(mutex);
    while (!stop) {
      const auto next_report = std::exchange(report, std::nullopt);
      sending = next_report.has_value();
      lock.unlock();
      if (next_report) nodes->send(*next_report);
      std::vector<Order> orders;
      while (auto order = nodes->tick(Clock::now())) orders.push_back(std::move(*order));
      lock.lock();
      publish(orders);
      if (options.nodes == 1)
        changed.wait(lock, requested);
      else
        changed.wait_for(lock, pause_of(options), requested);
    }
  }

  void publish(std::vector<Order>& orders) {
    const bool finished = nodes->finished();
    if (!orders.empty() || finished != events.finished) wake_owner.set();
    events.finished = finished;
    std::ranges::move(orders, std::back_inserter(events.orders));
    sending = false;
    changed.notify_all();
  }

  void fail(const std::string& why) {
    const std::scoped_lock lock(mutex);
    events.failure = why;
    events.joined.reset();
    wake_owner.set();
    changed.notify_all();
  }

  const LaunchOptions options;
  Event wake_owner;

  std::mutex mutex;  // for all up to `events`
  std::condition_variable changed;
  std::optional<Report> report;  ///< to be sent
  bool stop = false;
  bool sending = false;
  NodeEvents events;

  JobStore job;  // this and the next: the thread's own
  std::optional<NodeGroup> nodes;
};

NodeThread::NodeThread(const LaunchOptions& options) : shared_(std::make_shared<Shared>(options)) {
  thread_without_signals([shared = shared_] { shared->run(); }).detach();
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
  NodeEvents taken = shared_->events;
  shared_->events.orders.clear();
  return taken;
}

void NodeThread::report(const Report& report) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->report = report;
  shared_->changed.notify_all();
}

void NodeThread::flush(std::chrono::milliseconds longest) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, longest, [this] {
    return !shared_->events.joined || (!shared_->report && !shared_->sending);
  });
}

}  // namespace shampoo::launcher
