// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/store_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
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
  explicit Loop(std::uint16_t port);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  Loop(Loop&&) = delete;
  Loop& operator=(Loop&&) = delete;

  std::uint16_t port() const { return port_; }
  /// Runs the task on the loop's thread and waits for it. Throws what it throws.
  void execute(std::function<void()> task);
  void remove_keys_except(std::string_view prefix) {
    execute([&] { handler_.remove_keys_except(prefix); });
  }

 private:
  void run();
  void run_task();
  void react(ClientId id, std::uint32_t events);
  void accept_all();
  void serve(ClientId id, std::uint32_t events);
  bool answer(Connection& connection, std::uint32_t events);
  void end_waits();
  void update_events(ClientId id);
  void drop(ClientId id);
  bool watch(int operation, int fd, ClientId id, std::uint32_t events);

  Socket listener_, epoll_, wake_;
  std::uint16_t port_;
  store::RequestHandler handler_;
  std::unordered_map<ClientId, Connection> connections_;
  ClientId next_id_ = first_client_id;
  bool listening_ = true, stopping_ = false;
  std::array<char, 64 << 10> scratch_;
  std::mutex mutex_;                 ///< held by the thread that executes a task
  std::packaged_task<void()> task_;  ///< handed over by writing to wake_
  std::thread thread_;
};

StoreServer::Loop::Loop(std::uint16_t port)
    : listener_(store::listen_on(port)),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "store: epoll")),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "store: eventfd")),
      port_(store::port_of(listener_)) {
  if (!watch(EPOLL_CTL_ADD, listener_.get(), listener_id, EPOLLIN) ||
      !watch(EPOLL_CTL_ADD, wake_.get(), wake_id, EPOLLIN))
    throw std::system_error(errno, std::generic_category(), "store: epoll_ctl");
  thread_ = thread_without_signals([this] { run(); });
}

StoreServer::Loop::~Loop() {
  execute([this] { stopping_ = true; });
  thread_.join();
}

void StoreServer::Loop::execute(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  task_ = std::packaged_task<void()>(std::move(task));
  std::future<void> done = task_.get_future();
  const std::uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  done.get();
}

void StoreServer::Loop::run_task() {
  std::uint64_t count = 0;
  while (::read(wake_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
  task_();
}

void StoreServer::Loop::run() {
  constexpr int pause_ms = 50;  // while the process has no descriptor for a new client
  std::array<epoll_event, 64> events;
  while (!stopping_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   listening_ ? -1 : pause_ms);
    for (int i = 0; i < count; ++i) react(events[i].data.u64, events[i].events);
    if (!listening_) listening_ = watch(EPOLL_CTL_MOD, listener_.get(), listener_id, EPOLLIN);
  }
}

/// An exception means that a client needs more memory than there is.
void StoreServer::Loop::react(ClientId id, std::uint32_t events) {
  try {
    if (id == wake_id)
      run_task();
    else if (id == listener_id)
      accept_all();
    else
      serve(id, events);
  } catch (const std::exception&) {
    drop(id);
  }
}

void StoreServer::Loop::accept_all() {
  constexpr int most_at_once = 64;
  for (int i = 0; i < most_at_once; ++i) {
    Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      // epoll would report the waiting client again and again.
      if (full) listening_ = !watch(EPOLL_CTL_MOD, listener_.get(), listener_id, 0);
      return;
    }
    const ClientId id = next_id_++;
    const int fd = socket.get();
    store::make_prompt(socket);
    connections_.try_emplace(id, id, std::move(socket)).first->second.events = EPOLLIN;
    if (!watch(EPOLL_CTL_ADD, fd, id, EPOLLIN)) drop(id);
  }
}

void StoreServer::Loop::serve(ClientId id, std::uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const bool open = answer(found->second, events);
  end_waits();
  if (open)
    update_events(id);
  else
    drop(id);
}

/// False: to be closed.
bool StoreServer::Loop::answer(Connection& connection, std::uint32_t events) {
  bool open = true;
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
    if (!connection.wants_input() && (events & (EPOLLHUP | EPOLLERR))) return false;
    if (connection.wants_input()) open = connection.receive(scratch_.data(), scratch_.size());
  }
  while (true) {
    const Connection::Step step = connection.answer_one(handler_);
    if (step == Connection::Step::refused) {
      connection.flush();  // the replies to earlier requests
      return false;
    }
    if (step == Connection::Step::idle) return connection.flush() && open;
    end_waits();
  }
}

void StoreServer::Loop::end_waits() {
  for (const ClientId id : handler_.take_woken()) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    found->second.end_wait();
    found->second.flush();  // epoll reports failures
    update_events(id);
  }
}

void StoreServer::Loop::update_events(ClientId id) {
  Connection& connection = connections_.at(id);
  const std::uint32_t events = (connection.wants_input() ? std::uint32_t{EPOLLIN} : 0U) |
                               (connection.wants_output() ? std::uint32_t{EPOLLOUT} : 0U);
  if (events == connection.events) return;
  if (watch(EPOLL_CTL_MOD, connection.fd(), id, events)) connection.events = events;
}

void StoreServer::Loop::drop(ClientId id) {
  handler_.disconnected(id);
  connections_.erase(id);
}

bool StoreServer::Loop::watch(int operation, int fd, ClientId id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

StoreServer::StoreServer(const StoreServerOptions& options)
    : loop_(std::make_unique<Loop>(options.port)) {}

StoreServer::~StoreServer() = default;

std::uint16_t StoreServer::port() const { return loop_->port(); }

void StoreServer::remove_keys_except(std::string_view prefix) { loop_->remove_keys_except(prefix); }

}  // namespace shampoo
