// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/store_server.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "distributor/store/proof.h"
#include "distributor/system/thread_without_signals.h"
#include "distributor/system/time_left.h"

namespace shampoo {

using store::Connection;
using store::Socket;

namespace {

constexpr store::ClientId wake_id = 0, first_listener_id = 1;

void check(const StoreServerOptions& options) {
  using std::chrono::milliseconds;
  constexpr milliseconds least{1}, most = std::chrono::days(365);
  store::check_secret(options.secret);
  if (options.greeting_time < least || options.greeting_time > most)
    throw std::invalid_argument(
        "store: StoreServerOptions::greeting_time must be from 1 ms to one year, got " +
        std::to_string(options.greeting_time.count()) + " ms");
  if (options.most_bytes == 0)
    throw std::invalid_argument("store: StoreServerOptions::most_bytes must not be 0");
}

std::vector<Socket> listeners(const StoreServerOptions& options) {
  check(options);
  if (options.host.empty()) return store::listen_on(options.port);
  return store::listen_on(options.port, store::own_addresses(options.host, options.several_hosts));
}

Socket make_epoll() {
  Socket epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) throw std::system_error(errno, std::generic_category(), "store: epoll");
  return epoll;
}

}  // namespace

StoreServer::StoreServer(const StoreServerOptions& options)
    : listeners_(listeners(options)),
      epoll_(make_epoll()),
      port_(store::port_of(listeners_.front())),
      handler_(options.most_bytes),
      clients_(options),
      next_id_(first_listener_id + listeners_.size()),
      process_(::getpid()) {
  const std::string bound = numeric_text(local_address(listeners_.front().get()));
  own_address_ = bound == "::" || bound == "0.0.0.0" ? "localhost" : bound;
  bool watched = watch(EPOLL_CTL_ADD, wake_.descriptor(), wake_id, EPOLLIN);
  for (std::size_t i = 0; i < listeners_.size(); ++i)
    watched = watched && watch(EPOLL_CTL_ADD, listeners_[i].get(), first_listener_id + i, EPOLLIN);
  if (!watched) throw std::system_error(errno, std::generic_category(), "store: epoll_ctl");
  thread_ = thread_without_signals([this] { run(); });
}

StoreServer::~StoreServer() {
  if (::getpid() == process_) {
    stopping_ = true;
    wake_.set();
    thread_.join();
  } else {
    thread_.detach();
  }
}

void StoreServer::execute(std::function<void()> task) const {
  const std::lock_guard lock(mutex_);
  task_ = std::packaged_task<void()>(std::move(task));
  std::future<void> done = task_.get_future();
  wake_.set();
  done.get();
}

void StoreServer::run_task() {
  wake_.clear();
  task_();
}

void StoreServer::run() {
  std::array<epoll_event, 64> events;
  while (!stopping_) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), pause_ms());
    if (!listening_) listen(true);  // after the pause
    for (int i = 0; i < count && !stopping_; ++i) react(events[i].data.u64, events[i].events);
    drop_late();
  }
}

int StoreServer::pause_ms() const {
  constexpr int without_descriptors = 50;  // for a new client
  if (!listening_) return without_descriptors;
  const auto late = clients_.next_late();
  if (!late) return -1;
  return static_cast<int>(std::min<std::int64_t>(time_left(*late).count(), 60'000));
}

void StoreServer::drop_late() {
  const auto now = store::Clock::now();
  while (const auto late = clients_.take_late(now)) drop(*late);
}

/// An exception means that a client needs more memory than there is.
void StoreServer::react(ClientId id, std::uint32_t events) {
  try {
    if (id == wake_id)
      run_task();
    else if (id < first_listener_id + listeners_.size())
      accept_all(listeners_[id - first_listener_id]);
    else
      serve(id, events);
  } catch (const std::exception&) {
    drop(id);
  }
}

void StoreServer::listen(bool wanted) {
  listening_ = wanted;
  const std::uint32_t events = wanted ? std::uint32_t{EPOLLIN} : 0U;
  for (std::size_t i = 0; i < listeners_.size(); ++i)
    if (!watch(EPOLL_CTL_MOD, listeners_[i].get(), first_listener_id + i, events))
      listening_ = false;
}

void StoreServer::accept_all(const Socket& listener) {
  constexpr int most_at_once = 64;
  for (int i = 0; i < most_at_once; ++i) {
    Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      accept_one(std::move(socket));
      continue;
    }
    const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    // epoll would report the waiting client again and again.
    if (full) listen(false);
    return;
  }
}

void StoreServer::accept_one(Socket socket) {
  if (const auto gone = clients_.one_too_many()) drop(*gone);
  const ClientId id = next_id_++;
  store::make_prompt(socket);
  Connection* connection = clients_.add(id, std::move(socket));
  if (!connection) return;
  connection->events = EPOLLIN;
  if (!watch(EPOLL_CTL_ADD, connection->fd(), id, EPOLLIN)) return drop(id);
  ++accepted_;
  most_connections_ = std::max(most_connections_, clients_.size());
}

void StoreServer::serve(ClientId id, std::uint32_t events) {
  Connection* connection = clients_.find(id);
  if (!connection) return;
  const bool open = answer(*connection, events);
  const bool fits = clients_.note(*connection);
  end_waits();
  most_table_bytes_ = std::max(most_table_bytes_, handler_.table().bytes());
  if (open && fits)
    update_events(id);
  else
    drop(id);
}

/// False: to be closed.
bool StoreServer::answer(Connection& connection, std::uint32_t events) {
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

StoreStatistics StoreServer::statistics() const {
  StoreStatistics result;
  execute([&] {
    const store::Traffic traffic = clients_.traffic();
    result = {.requests = traffic.requests,
              .bytes_received = traffic.received,
              .bytes_sent = traffic.sent,
              .accepted = accepted_,
              .connections = clients_.size(),
              .most_connections = most_connections_,
              .keys = handler_.table().size(),
              .bytes = handler_.table().bytes(),
              .most_bytes = most_table_bytes_};
  });
  return result;
}

void StoreServer::end_waits() {
  for (const ClientId id : handler_.take_woken()) {
    Connection* connection = clients_.find(id);
    if (!connection) continue;
    try {
      connection->end_wait();
      connection->flush();  // epoll reports failures
      update_events(id);
    } catch (const std::bad_alloc&) {  // is no fault of who has set the key
      drop(id);
    }
  }
}

void StoreServer::update_events(ClientId id) {
  Connection& connection = *clients_.find(id);
  const std::uint32_t events = (connection.wants_input() ? std::uint32_t{EPOLLIN} : 0U) |
                               (connection.wants_output() ? std::uint32_t{EPOLLOUT} : 0U);
  if (events == connection.events) return;
  if (watch(EPOLL_CTL_MOD, connection.fd(), id, events)) connection.events = events;
}

void StoreServer::drop(ClientId id) {
  handler_.disconnected(id);
  clients_.remove(id);
}

bool StoreServer::watch(int operation, int fd, ClientId id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

}  // namespace shampoo
