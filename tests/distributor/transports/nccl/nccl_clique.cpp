// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "tests/distributor/transports/nccl/nccl_double.h"

namespace shampoo::test {

void NcclClique::arrive(int rank) {
  const std::lock_guard lock(mutex_);
  arrived_[rank] = true;
}

bool NcclClique::is_connected() {
  const std::lock_guard lock(mutex_);
  return std::ranges::count(arrived_, true) == size();
}

void NcclClique::launch(int rank, std::vector<NcclWork> work) {
  std::unique_lock lock(mutex_);
  if (aborted_[rank]) return;
  const std::uint64_t number = launches_[rank]++;
  Launch& launch = launch_[number];
  launch.of[rank] = std::move(work);
  if (static_cast<int>(launch.of.size()) == size() && fits(launch)) {
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

/// Whether all ranks launched what fits. NCCL would hang otherwise, or worse.
bool NcclClique::fits(Launch& launch) {
  const auto is_message = [](const NcclWork& work) {
    return work.kind == NcclWork::Kind::send || work.kind == NcclWork::Kind::receive;
  };
  for (const auto& [rank, work] : launch.of)
    for (std::size_t at = 0; at < work.size(); ++at)
      for (const auto& [other, theirs] : launch.of) {
        const NcclWork& own = work[at];
        const bool fit = is_message(own)
                             ? other != own.peer || find_other_end(theirs, own, rank) != nullptr
                             : at < theirs.size() && theirs[at].kind == own.kind &&
                                   theirs[at].bytes == own.bytes && theirs[at].peer == own.peer;
        if (!fit) return false;
      }
  return true;
}

/// The receive of a send of `rank`, or the send of a receive.
const NcclWork* NcclClique::find_other_end(const std::vector<NcclWork>& theirs, const NcclWork& own,
                                           int rank) {
  const auto kind =
      own.kind == NcclWork::Kind::send ? NcclWork::Kind::receive : NcclWork::Kind::send;
  const auto found = std::ranges::find_if(theirs, [&](const NcclWork& other) {
    return other.kind == kind && other.peer == rank && other.bytes == own.bytes;
  });
  return found == theirs.end() ? nullptr : &*found;
}

/// What `rank` receives by its work number `at`.
void NcclClique::move(Launch& launch, int rank, std::size_t at) {
  using Kind = NcclWork::Kind;
  const NcclWork& work = launch.of[rank][at];
  const auto bytes = static_cast<std::size_t>(work.bytes);
  const auto copy = [&](char* to, const char* from) {
    if (to != from && bytes > 0) std::memcpy(to, from, bytes);
  };
  if (work.kind == Kind::all_gather)
    for (int r = 0; r < size(); ++r) copy(work.receive + r * work.bytes, launch.of[r][at].send);
  if (work.kind == Kind::broadcast) copy(work.receive, launch.of[work.peer][at].send);
  if (work.kind == Kind::receive)
    copy(work.receive, find_other_end(launch.of[work.peer], work, rank)->send);
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
