// SPDX-License-Identifier: Apache-2.0
#include "joining_ranks.h"

#include <algorithm>
#include <barrier>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "distributor/rendezvous/detection.h"
#include "distributor/rendezvous/rendezvous.h"
#include "distributor/transports/gloo/gloo.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// One job in this process.
class Job {
 public:
  Job(int ranks, JoinStage stage, bool full_mesh)
      : stage_(stage), full_mesh_(full_mesh), size_(ranks), joined_(ranks), leaving_(ranks) {}

  JoinCosts run() {
    const std::size_t before = open_descriptors();
    const auto begin = Clock::now();
    std::vector<std::thread> threads;
    for (int rank = 1; rank < size_; ++rank) threads.emplace_back([this, rank] { join(rank); });
    join(0, [&] {
      costs_.time = Clock::now() - begin;
      costs_.store = server_.statistics();
      costs_.descriptors = open_descriptors() - before;
    });
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    return costs_;
  }

 private:
  template <typename Measure = void (*)()>
  void join(
      int rank, const Measure& measure = [] {}) {
    std::unique_ptr<Communicator> ranks;
    std::shared_ptr<Store> store;
    try {
      const rendezvous::Detected detected{.start = rendezvous::Start::given,
                                          .rank = rank,
                                          .size = size_,
                                          .local_size = size_,
                                          .host = "127.0.0.1",
                                          .port = server_.port(),
                                          .agent_hosts_store = true,
                                          .job = "job"};
      const JoinOptions options{.connect_deadline = 300s};
      const rendezvous::Rendezvous found = rendezvous::run_rendezvous(
          detected, options, "Gloo", [] { return std::vector<std::string>{"127.0.0.1"}; });
      store = found.store;
      if (stage_ == JoinStage::connected)
        ranks = gloo_communicator({.rank = rank, .size = size_, .local_rank = rank}, found.store,
                                  {.prefix = found.prefix, .deadline = 300s});
      if (full_mesh_) call_all_to_all(*ranks);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    joined_.arrive_and_wait();
    measure();
    leaving_.arrive_and_wait();
  }

  void call_all_to_all(Communicator& ranks) const {
    const auto size = static_cast<std::size_t>(size_);
    std::vector<int> sent(size), received(size);
    for (std::size_t r = 0; r < size; ++r) sent[r] = ranks.rank() * size_ + static_cast<int>(r);
    const std::vector<std::int64_t> counts(size, sizeof(int));
    ranks.all_to_all(sent.data(), counts, received.data(), counts).wait();
    for (std::size_t r = 0; r < size; ++r)
      if (received[r] != static_cast<int>(r) * size_ + ranks.rank())
        throw std::runtime_error("all_to_all gives wrong values");
  }

  JoinStage stage_;
  bool full_mesh_;
  int size_;
  StoreServer server_{{.host = "127.0.0.1", .several_hosts = false}};
  std::barrier<> joined_, leaving_;
  std::mutex mutex_;
  std::exception_ptr error_;
  JoinCosts costs_;
};

}  // namespace

JoinCosts join_ranks(int ranks, JoinStage stage, bool full_mesh) {
  return Job(ranks, stage, full_mesh).run();
}

}  // namespace shampoo::test
