// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/store_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "distributor/store/connection.h"
#include "distributor/system/thread_without_signals.h"

namespace shampoo {

using store::ClientId;
using store::Connection;
using store::Socket;

namespace {

constexpr ClientId listener_id = 0, wake_id = 1, first_client_id = 2;

Socket checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return Socket(fd);
}

}  // namespace

class StoreServer::Loop {
 public:
  explicit Loop(const StoreServerOptions& options);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  Loop(Loop&&) = delete;
  Loop& operator=(Loop&&) = delete;

  std::uint16_t port() const { return port_; }
  void remove_keys_except(std::string_view prefix);

 private:
  using Connections = std::unordered_map<ClientId, Connection>;

  void wake();
  void take_requests();
  void run();
  void react(ClientId id, std::uint32_t events);
  void accept_all();
  void add(Socket socket);
  bool drop_stranger();
  void serve(ClientId id, std::uint32_t events);
  bool answer(Connection& connection, std::uint32_t events);
  void end_waits();
  void settle(ClientId id);
  void account(Connection& connection);
  void drop_while_full();
  void drop(ClientId id);
  bool watch(int operation, int fd, ClientId id, std::uint32_t events);

  StoreServerOptions options_;
  Socket listener_, epoll_, wake_;
  std::uint16_t port_;
  store::Service service_;
  Connections connections_;
  std::set<ClientId> strangers_;  ///< those that have not sent a request yet
  std::size_t buffered_ = 0;      ///< bytes of all connections
  std::uint64_t looks_ = 0;       ///< at connections that had become large
  ClientId next_id_ = first_client_id;
  bool listening_ = true, stopping_ = false;
  std::array<char, 64 << 10> scratch_;
  std::mutex mutex_;  ///< of the next three, with which owners wake the thread
  std::condition_variable request_done_;
  std::optional<std::string> kept_prefix_;
  bool stop_requested_ = false;
  std::thread thread_;
};

/// Half of the memory is for keys, values and waits, half for what is read and to be sent.
StoreServer::Loop::Loop(const StoreServerOptions& options)
    : options_(options),
      listener_(store::listen_on(options.port)),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "store: epoll")),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "store: eventfd")),
      port_(store::port_of(listener_)),
      service_(options.most_bytes / 2, options.most_bytes / 4) {
  if (!watch(EPOLL_CTL_ADD, listener_.get(), listener_id, EPOLLIN) ||
      !watch(EPOLL_CTL_ADD, wake_.get(), wake_id, EPOLLIN))
    throw std::system_error(errno, std::generic_category(), "store: epoll_ctl");
  thread_ = thread_without_signals([this] { run(); });
}

StoreServer::Loop::~Loop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_requested_ = true;
  }
  wake();
  thread_.join();
}

void StoreServer::Loop::wake() {
  const std::uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void StoreServer::Loop::remove_keys_except(std::string_view prefix) {
  std::unique_lock lock(mutex_);
  kept_prefix_ = prefix;
  wake();
  request_done_.wait(lock, [this] { return !kept_prefix_; });
}

void StoreServer::Loop::take_requests() {
  std::uint64_t count = 0;
  while (::read(wake_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
  const std::scoped_lock lock(mutex_);
  stopping_ = stop_requested_;
  if (!kept_prefix_) return;
  service_.remove_keys_except(*kept_prefix_);
  kept_prefix_.reset();
  request_done_.notify_all();
}

void StoreServer::Loop::run() {
  constexpr int pause_ms = 50;  // while the process has no descriptor left for a new client
  std::array<epoll_event, 64> events;
  while (!stopping_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   listening_ ? -1 : pause_ms);
    for (int i = 0; i < count; ++i) react(events[i].data.u64, events[i].events);
    if (!listening_) {
      listening_ = true;
      watch(EPOLL_CTL_MOD, listener_.get(), listener_id, EPOLLIN);
    }
  }
}

void StoreServer::Loop::react(ClientId id, std::uint32_t events) {
  if (id == wake_id) {
    take_requests();
  } else if (id == listener_id) {
    accept_all();
  } else {
    serve(id, events);
  }
}

void StoreServer::Loop::accept_all() {
  constexpr int most_at_once = 64;
  for (int i = 0; i < most_at_once; ++i) {
    Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() >= 0) {
      if (connections_.size() < static_cast<std::size_t>(options_.most_connections) ||
          drop_stranger())
        add(std::move(socket));
    } else if ((errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) ||
               !store::is_readable(listener_)) {  // full, but nobody waits
      return;
    } else if (!drop_stranger()) {
      listening_ = false;
      watch(EPOLL_CTL_MOD, listener_.get(), listener_id, 0);
      return;
    }
  }
}

void StoreServer::Loop::add(Socket socket) {
  const ClientId id = next_id_++;
  const int fd = socket.get();
  store::make_prompt(socket);
  connections_.try_emplace(id, id, std::move(socket)).first->second.events = EPOLLIN;
  strangers_.insert(id);
  if (!watch(EPOLL_CTL_ADD, fd, id, EPOLLIN)) drop(id);
}

/// The oldest; ids grow. Whoever was about to send a request tries again. False: there is none.
bool StoreServer::Loop::drop_stranger() {
  if (strangers_.empty()) return false;
  drop(*strangers_.begin());
  return true;
}

void StoreServer::Loop::serve(ClientId id, std::uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  bool fine = false;
  try {
    fine = answer(found->second, events);
    end_waits();
  } catch (const std::exception&) {
    fine = false;  // the client asked for more memory than there is
  }
  if (!fine) return drop(id);
  if (found->second.served()) strangers_.erase(id);
  settle(id);
  drop_while_full();
}

/// False: to be closed.
bool StoreServer::Loop::answer(Connection& connection, std::uint32_t events) {
  bool open = true;
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
    if (!connection.wants_input() && (events & (EPOLLHUP | EPOLLERR))) return false;
    if (connection.wants_input()) open = connection.receive(scratch_.data(), scratch_.size());
  }
  while (true) {
    const Connection::Step step = connection.answer_one(service_);
    if (step == Connection::Step::refused) {
      connection.flush();  // the replies to what came before
      return false;
    }
    if (step == Connection::Step::idle) return connection.flush() && open;
    end_waits();
  }
}

void StoreServer::Loop::end_waits() {
  for (const ClientId id : service_.take_woken()) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    found->second.end_wait();
    found->second.flush();  // where it fails, epoll tells
    settle(id);
  }
}

/// Asks epoll for what the connection needs next.
void StoreServer::Loop::settle(ClientId id) {
  Connection& connection = connections_.at(id);
  account(connection);
  const std::uint32_t events = (connection.wants_input() ? std::uint32_t{EPOLLIN} : 0U) |
                               (connection.wants_output() ? std::uint32_t{EPOLLOUT} : 0U);
  if (events == connection.events) return;
  if (watch(EPOLL_CTL_MOD, connection.fd(), id, events)) connection.events = events;
}

void StoreServer::Loop::account(Connection& connection) {
  constexpr std::size_t large = 16 << 10;
  buffered_ -= connection.accounted;
  connection.accounted = connection.memory();
  buffered_ += connection.accounted;
  if (connection.accounted < large)
    connection.large_since = Connection::never;
  else if (connection.large_since == Connection::never)
    connection.large_since = ++looks_;
}

/// Those that have been large for longest go first: they are stalled, or stall on purpose. Among
/// small ones, the largest.
void StoreServer::Loop::drop_while_full() {
  while (buffered_ > options_.most_bytes / 2) {
    const auto before = [](const auto& a, const auto& b) {
      if (a.second.large_since != b.second.large_since)
        return a.second.large_since < b.second.large_since;
      return a.second.accounted > b.second.accounted;
    };
    drop(std::min_element(connections_.begin(), connections_.end(), before)->first);
  }
}

void StoreServer::Loop::drop(ClientId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  service_.forget(id);
  buffered_ -= found->second.accounted;
  strangers_.erase(id);
  connections_.erase(found);
}

bool StoreServer::Loop::watch(int operation, int fd, ClientId id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

StoreServer::StoreServer(const StoreServerOptions& options) {
  if (options.most_connections < 1)
    throw std::invalid_argument("StoreServerOptions.most_connections: must be at least 1, got " +
                                std::to_string(options.most_connections));
  loop_ = std::make_unique<Loop>(options);
}

StoreServer::~StoreServer() = default;

std::uint16_t StoreServer::port() const { return loop_->port(); }

void StoreServer::remove_keys_except(std::string_view prefix) { loop_->remove_keys_except(prefix); }

}  // namespace shampoo
