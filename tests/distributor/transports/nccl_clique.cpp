// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "tests/distributor/transports/nccl_double.h"

namespace shampoo::test {

void NcclClique::arrive(int rank) {
  const std::lock_guard lock(mutex_);
  arrived_[rank] = true;
}

bool NcclClique::is_connected() {
  const std::lock_guard lock(mutex_);
  return std::ranges::count(arrived_, true) == size();
}

std::string NcclClique::fault() {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void NcclClique::launch(int rank, std::vector<NcclWork> work) {
  std::unique_lock lock(mutex_);
  if (aborted_[rank]) return;
  const std::uint64_t number = launches_[rank]++;
  Launch& launch = launch_[number];
  launch.of[rank] = std::move(work);
  if (static_cast<int>(launch.of.size()) == size()) {
    perform(launch);
    launch.done = true;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return launch.done || aborted_[rank]; });
}

void NcclClique::abort(int rank) {
  {
    const std::lock_guard lock(mutex_);
    aborted_[rank] = true;
  }
  changed_.notify_all();
}

void NcclClique::perform(Launch& launch) {
  for (const auto& [rank, work] : launch.of)
    for (std::size_t at = 0; at < work.size(); ++at) move(launch, rank, at);
}

/// What `rank` receives by its work number `at`.
void NcclClique::move(Launch& launch, int rank, std::size_t at) {
  using Kind = NcclWork::Kind;
  const NcclWork& work = launch.of[rank][at];
  const auto bytes = static_cast<std::size_t>(work.bytes);
  const auto copy = [&](char* to, const char* from) {
    if (to != from && bytes > 0) std::memcpy(to, from, bytes);
  };
  const auto same = [&](int other) -> const NcclWork* {
    const auto& theirs = launch.of[other];
    const bool fits = at < theirs.size() && theirs[at].kind == work.kind &&
                      theirs[at].bytes == work.bytes && theirs[at].peer == work.peer;
    if (!fits) fault_ = "ranks launched what does not fit";
    return fits ? &theirs[at] : nullptr;
  };
  if (work.kind == Kind::all_gather)
    for (int r = 0; r < size(); ++r) {
      if (const NcclWork* const theirs = same(r)) copy(work.receive + r * work.bytes, theirs->send);
    }
  if (work.kind == Kind::broadcast)
    if (const NcclWork* const theirs = same(work.peer)) copy(work.receive, theirs->send);
  if (work.kind != Kind::receive) return;
  const auto& theirs = launch.of[work.peer];
  const auto found = std::ranges::find_if(theirs, [&](const NcclWork& other) {
    return other.kind == Kind::send && other.peer == rank && other.bytes == work.bytes;
  });
  if (found == theirs.end())
    fault_ = "a message that nobody sends";
  else
    copy(work.receive, found->send);
}

std::shared_ptr<NcclClique> NcclClique::child(std::uint64_t split, int rank, int color, int key,
                                              int& place) {
  std::unique_lock lock(mutex_);
  Split& all = splits_[split];
  all.choices[rank] = {color, key};
  changed_.notify_all();
  changed_.wait(lock, [&] { return static_cast<int>(all.choices.size()) == size(); });
  if (color < 0) return nullptr;
  const auto members = std::ranges::count_if(
      all.choices, [&](const auto& choice) { return choice.second.first == color; });
  place = static_cast<int>(std::ranges::count_if(all.choices, [&](const auto& choice) {
    return choice.second.first == color && choice.second.second < key;
  }));
  std::shared_ptr<NcclClique>& clique = all.cliques[color];
  if (!clique) clique = std::make_shared<NcclClique>(static_cast<int>(members));
  lock.unlock();
  clique->arrive(place);
  return clique;
}

}  // namespace shampoo::test
