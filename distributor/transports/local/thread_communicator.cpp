// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

#include "distributor/call_record.h"
#include "distributor/communicator.h"
#include "distributor/rank_list.h"
#include "distributor/transports/transport.h"

namespace shampoo {

namespace {

/// One rank's arguments of a collective. Borrowed until all ranks have copied.
struct Post {
  CollectiveCall call = {};
  const void* data = nullptr;
  std::span<const std::int64_t> sent = {}, received = {};  ///< bytes by rank, of all_to_all
};

/// Shared by the ranks of one communicator.
class Hub {
 public:
  explicit Hub(int size) : posts_(size), arrived_(size), left_(size) {}

  /// Posts, waits for the posts of all ranks, calls copy(posts), and waits until all have copied.
  /// Throws on all ranks, before any has copied, if two are in different calls.
  template <typename Copy>
  void rendezvous(int rank, const Post& post, std::chrono::milliseconds deadline,
                  const Copy& copy) {
    gather(rank, post, deadline);
    copy(std::as_const(posts_));
    release();
  }

  /// Fails pending and later collectives of all ranks.
  void fail(const std::string& reason, std::vector<int> missing = {}) {
    const std::lock_guard lock(mutex_);
    fail_locked(reason, std::move(missing));
  }

  /// Those that wait find out by themselves, so that it needs no memory.
  void leave(int rank) noexcept {
    const std::lock_guard lock(mutex_);
    left_[rank] = true;
    changed_.notify_all();
  }

  /// The hub of a subset, created by the first of its ranks to arrive.
  std::shared_ptr<Hub> child(std::uint64_t index, int color, int size) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Hub>& hub = children_[{index, color}];
    if (!hub) hub = std::make_shared<Hub>(size);
    const std::shared_ptr<Hub> kept = hub;
    if (++taken_[{index, color}] == size) hub.reset();
    return kept;
  }

 private:
  void gather(int rank, const Post& post, std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    check_locked();
    posts_[rank] = post;
    arrived_[rank] = true;
    if (++waiting_ == static_cast<int>(posts_.size())) {
      if (const std::string mismatch = find_mismatch(); !mismatch.empty()) {
        fail_locked(mismatch, {});
        throw CommunicationError(failure_, missing_);
      }
      ++round_;
      waiting_ = 0;
      copying_ = static_cast<int>(posts_.size());
      arrived_.assign(arrived_.size(), false);
      changed_.notify_all();
      return;
    }
    const std::uint64_t round = round_;
    const auto over = [&] { return round_ != round || !failure_.empty() || has_left(); };
    if (!changed_.wait_for(lock, deadline, over)) {
      std::vector<bool> absent = arrived_;
      absent.flip();
      const std::string mismatch = find_mismatch();
      fail_locked(rank_list(list(absent)) + " did not take part within " + seconds_text(deadline) +
                      (mismatch.empty() ? "" : "; " + mismatch),
                  list(absent));
    }
    if (round_ == round) check_locked();
  }

  /// Compares the calls of the ranks that have arrived.
  std::string find_mismatch() const {
    std::vector<CallRecord> calls;
    const auto differs = [&](const Post& post) {
      return post.call.signature != posts_.front().call.signature;
    };
    if (std::ranges::find(arrived_, false) != arrived_.end() ||
        std::ranges::any_of(posts_, differs))
      for (std::size_t r = 0; r < posts_.size(); ++r)
        if (arrived_[r]) calls.emplace_back(static_cast<int>(r), posts_[r].call);
    if (!calls.empty()) return describe_mismatch(calls);
    for (std::size_t from = 0; from < posts_.size(); ++from)
      for (std::size_t to = 0; to < posts_[from].sent.size(); ++to)
        if (const auto sent = posts_[from].sent[to], expected = posts_[to].received[from];
            sent != expected)
          return describe_counts(static_cast<int>(from), sent, static_cast<int>(to), expected);
    return {};
  }

  /// Buffers must stay alive until every rank has copied from them, even after a failure.
  void release() {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    if (--copying_ == 0) {
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != round; });
  }

  void fail_locked(const std::string& reason, std::vector<int> missing) {
    if (!failure_.empty()) return;
    failure_ = reason;
    missing_ = std::move(missing);
    changed_.notify_all();
  }

  bool has_left() const { return std::ranges::find(left_, true) != left_.end(); }

  /// Throws the failure, if any; a rank that has left is one.
  void check_locked() {
    if (has_left()) fail_locked(rank_list(list(left_)) + " has left", list(left_));
    if (!failure_.empty()) throw CommunicationError(failure_, missing_);
  }

  static std::vector<int> list(const std::vector<bool>& flags) {
    std::vector<int> ranks;
    for (std::size_t r = 0; r < flags.size(); ++r)
      if (flags[r]) ranks.push_back(static_cast<int>(r));
    return ranks;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Post> posts_;
  std::vector<bool> arrived_, left_;
  int waiting_ = 0, copying_ = 0;
  std::uint64_t round_ = 0;
  std::string failure_;
  std::vector<int> missing_;
  std::map<std::pair<std::uint64_t, int>, std::shared_ptr<Hub>> children_;
  std::map<std::pair<std::uint64_t, int>, int> taken_;
};

class ThreadTransport final : public CollectiveTransport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, const RankInfo& info)
      : CollectiveTransport(info), hub_(std::move(hub)) {}
  ~ThreadTransport() override { hub_->leave(rank()); }

  std::string description() const override { return "threads of one process"; }

  void start_all_gather(const CollectiveCall& call, void* data, Counts counts,
                        const BufferLease&) override {
    meet({call, data}, [&](const std::vector<Post>& posts) {
      std::int64_t begin = 0;
      for (int r = 0; r < size(); begin += counts[r++])
        if (r != rank()) copy(data, begin, posts[r].data, begin, counts[r]);
    });
  }

  void start_all_to_all(const CollectiveCall& call, const void* send, Counts send_counts,
                        void* receive, Counts receive_counts, const BufferLease&) override {
    meet({call, send, send_counts, receive_counts}, [&](const std::vector<Post>& posts) {
      std::int64_t to = 0;
      for (int r = 0; r < size(); to += receive_counts[r++]) {
        const Counts sent = posts[r].sent;
        const auto from = std::accumulate(sent.begin(), sent.begin() + rank(), std::int64_t{0});
        copy(receive, to, posts[r].data, from, receive_counts[r]);
      }
    });
  }

  void start_broadcast(const CollectiveCall& call, void* data, std::int64_t bytes, int root,
                       const BufferLease&) override {
    meet({call, data}, [&](const std::vector<Post>& posts) {
      if (rank() != root) copy(data, 0, posts[root].data, 0, bytes);
    });
  }

  void start_barrier(const CollectiveCall& call, const BufferLease&) override {
    meet({call}, [](const std::vector<Post>&) {});
  }

  std::unique_ptr<Communicator> split(const Subset& subset) override {
    if (subset.members.empty()) return nullptr;
    const int count = static_cast<int>(subset.members.size());
    return std::make_unique<Communicator>(std::make_unique<ThreadTransport>(
        hub_->child(subset.index, subset.color, count),
        RankInfo{.rank = subset.rank, .size = count, .local_rank = subset.rank}));
  }

  void abort(std::string_view reason) noexcept override {
    try {
      hub_->fail("rank " + std::to_string(rank()) + " aborted: " + std::string(reason), {rank()});
    } catch (const std::bad_alloc&) {
      hub_->fail("a rank aborted");  // so short that it needs no memory
    }
  }

 private:
  template <typename Copy>
  void meet(const Post& post, const Copy& body) {
    hub_->rendezvous(rank(), post, deadline(), body);
  }

  static void copy(void* to, std::int64_t to_offset, const void* from, std::int64_t from_offset,
                   std::int64_t bytes) {
    if (bytes > 0)
      std::memcpy(static_cast<char*>(to) + to_offset, static_cast<const char*>(from) + from_offset,
                  static_cast<std::size_t>(bytes));
  }

  std::shared_ptr<Hub> hub_;
};

/// Exception of a rank.
struct Thrown {
  std::exception_ptr exception = nullptr;
  std::string message = "an object that is not a std::exception";
  bool is_consequence = false;  ///< of the failure of another rank
};

Thrown current_thrown() {
  Thrown thrown{.exception = std::current_exception()};
  try {
    throw;
  } catch (const CommunicationError& error) {
    thrown.message = error.what();
    thrown.is_consequence = true;
  } catch (const std::exception& error) {
    thrown.message = error.what();
  } catch (...) {
  }
  return thrown;
}

}  // namespace

void run_ranks(int n, const std::function<void(Communicator&)>& body) {
  if (n < 1 || n > 1024)
    throw std::invalid_argument("run_ranks: n must be from 1 to 1024, got " + std::to_string(n));
  const auto hub = std::make_shared<Hub>(n);
  std::mutex mutex;
  std::vector<Thrown> all;  // in the order of arrival
  const auto record = [&](const std::string& who, std::vector<int> missing) {
    Thrown thrown = current_thrown();
    hub->fail(who + thrown.message, std::move(missing));
    const std::lock_guard lock(mutex);
    all.push_back(std::move(thrown));
  };
  const auto run = [&](int rank) {
    Communicator communicator(std::make_unique<ThreadTransport>(
        hub, RankInfo{.rank = rank, .size = n, .local_rank = rank}));
    try {
      body(communicator);
    } catch (...) {
      record("rank " + std::to_string(rank) + " threw: ", {rank});
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (int rank = 0; rank < n; ++rank) threads.emplace_back(run, rank);
    } catch (...) {
      record("rank " + std::to_string(threads.size()) + " could not be started: ", {});
    }
  }
  // The consequence on one rank may be recorded before the cause on another.
  const auto cause = std::ranges::find(all, false, &Thrown::is_consequence);
  if (cause != all.end()) std::rethrow_exception(cause->exception);
  if (!all.empty()) std::rethrow_exception(all.front().exception);
}

}  // namespace shampoo
