// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_bootstrap.h"

#include <numeric>
#include <utility>

#include "distributor/error.h"
#include "distributor/rank_list.h"

namespace shampoo {

namespace {

class RanksMeeting final : public NcclMeeting {
 public:
  explicit RanksMeeting(Communicator& ranks) : ranks_(ranks) {}

  std::vector<std::string> gather(const std::string& own) override {
    const auto size = static_cast<std::size_t>(ranks_.size());
    const auto rank = static_cast<std::size_t>(ranks_.rank());
    const auto lengths = std::make_shared<std::vector<std::int64_t>>(size);
    (*lengths)[rank] = static_cast<std::int64_t>(own.size());
    const std::vector<std::int64_t> numbers(size, sizeof(std::int64_t));
    ranks_.all_gather(lengths->data(), numbers, {.owner = lengths}).wait();
    const auto all = std::reduce(lengths->begin(), lengths->end());
    const auto before = std::reduce(lengths->begin(), lengths->begin() + ranks_.rank());
    const auto texts = std::make_shared<std::string>(static_cast<std::size_t>(all), '\0');
    texts->replace(static_cast<std::size_t>(before), own.size(), own);
    ranks_.all_gather(texts->data(), *lengths, {.owner = texts}).wait();
    std::vector<std::string> parts;
    std::size_t at = 0;
    for (const std::int64_t length : *lengths) {
      parts.push_back(texts->substr(at, static_cast<std::size_t>(length)));
      at += parts.back().size();
    }
    return parts;
  }

  std::string broadcast(const std::string& own) override {
    return gather(ranks_.rank() == 0 ? own : "").front();
  }

 private:
  Communicator& ranks_;
};

class StoreMeeting final : public NcclMeeting {
 public:
  StoreMeeting(std::shared_ptr<SynchronizedStore> store, std::string prefix, int rank, int size,
               std::chrono::milliseconds deadline)
      : store_(std::move(store)),
        prefix_(std::move(prefix)),
        rank_(rank),
        size_(size),
        deadline_(deadline) {}

  /// Rank 0 collects, so that the requests do not grow with the square of the ranks.
  std::vector<std::string> gather(const std::string& own) override {
    const std::string round = next_round();
    if (rank_ > 0) set(round + std::to_string(rank_), own);
    std::string all = own + '\0';
    for (int r = 1; rank_ == 0 && r < size_; ++r) all += get(round + std::to_string(r), r) + '\0';
    all = broadcast(all);
    std::vector<std::string> parts;
    for (std::size_t at = 0, end = 0; (end = all.find('\0', at)) != all.npos; at = end + 1)
      parts.push_back(all.substr(at, end - at));
    return parts;
  }

  std::string broadcast(const std::string& own) override {
    const std::string key = next_round() + "0";
    if (rank_ == 0) set(key, own);
    return rank_ == 0 ? own : get(key, 0);
  }

 private:
  std::string next_round() { return prefix_ + "/" + std::to_string(round_++) + "/"; }

  void set(const std::string& key, const std::string& value) {
    store_->with([&](Store& store) { store.set(key, value); });
  }

  std::string get(const std::string& key, int rank) {
    const std::vector<std::string> keys{key};
    if (!store_->wait(keys, deadline_))
      throw CommunicationError(
          "rank " + std::to_string(rank) + " did not come within " + seconds_text(deadline_),
          {rank});
    const auto value = store_->with([&](Store& store) { return store.get(key); });
    if (!value) throw CommunicationError("the store lost the key " + key);
    return *value;
  }

  std::shared_ptr<SynchronizedStore> store_;
  const std::string prefix_;
  const int rank_, size_;
  const std::chrono::milliseconds deadline_;
  int round_ = 0;
};

}  // namespace

std::unique_ptr<NcclMeeting> meet_over(Communicator& ranks) {
  return std::make_unique<RanksMeeting>(ranks);
}

std::unique_ptr<NcclMeeting> meet_over(std::shared_ptr<SynchronizedStore> store, std::string prefix,
                                       int rank, int size, std::chrono::milliseconds deadline) {
  return std::make_unique<StoreMeeting>(std::move(store), std::move(prefix), rank, size, deadline);
}

}  // namespace shampoo
