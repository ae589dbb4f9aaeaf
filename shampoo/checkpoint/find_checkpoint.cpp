// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/find_checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "distributor/serialization.h"
#include "distributor/text_consensus.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/named_optimizers.h"
#include "shampoo/checkpoint/snapshot.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo::checkpoint {
namespace {

/// What rank 0 has found, for the other ranks.
struct Found {
  std::string folder;
  bool is_one = false;
  std::vector<std::string> broken, faults;
};

template <typename Visitor>
void for_each_field(Visitor&& visit, Found& found) {
  visit("folder", found.folder);
  visit("is_one", found.is_one);
  visit("broken", found.broken);
  visit("faults", found.faults);
}

}  // namespace

CheckpointSearch::CheckpointSearch(const Optimizers& optimizers, const std::filesystem::path& path,
                                   const UserState* user)
    : optimizers_(optimizers),
      optimizer_(optimizers.first()),
      user_(user),
      path_(path),
      given_path_(path.string()) {}

/// Rank 0 looks, as others may not see the latest one yet.
void CheckpointSearch::look() {
  if (!std::exchange(looked_, true)) {
    is_one_ = step_of(path_) || std::filesystem::exists(path_ / manifest_name);
    if (is_one_ && !std::filesystem::exists(path_))
      throw CheckpointError(path_.string() + ": there is no checkpoint; shampoo-checkpoint list " +
                            path_.parent_path().string() + " names those that there are");
    if (is_one_) {
      folder_ = path_.string();
      return;
    }
    checkpoints_.emplace(path_);
    const bool none_saves =
        std::ranges::all_of(optimizers_.all(), [](const NamedOptimizer& optimizer) {
          return OptimizerAccess::lineage(optimizer.optimizer).saves == 0;
        });
    if (none_saves) OptimizerAccess::lineage(optimizer_).stale = std::move(checkpoints_->stale());
  }
  // A trainer that prunes has removed it meanwhile, and has written another.
  if (!is_one_ && !folder_.empty() && !is_there(folder_) && ++listings_ < most_listings) {
    checkpoints_.emplace(path_);
    passed_over_.clear();
  }
  folder_.clear();
  if (is_one_) return;
  if (const auto complete = checkpoints_->next()) folder_ = complete->path.string();
  for (BrokenCheckpoint& broken : checkpoints_->broken()) passed_over_.push_back(std::move(broken));
  checkpoints_->broken().clear();
}

std::optional<std::filesystem::path> CheckpointSearch::next() {
  StepProtocol& protocol = OptimizerAccess::protocol(optimizer_);
  Communicator& ranks = OptimizerAccess::communicator(optimizer_);
  if (!ranks.failure().empty()) protocol.check_usable();
  protocol.vote(opening_checkpoint, "call", [&] {
    const std::string lines = validate(optimizers_);
    path_ = whole_path(path_);
    if (user_) validate_user_state(*std::exchange(user_, nullptr));
    if (ranks.rank() == 0) look();
    return "checkpoint: " + given_path_ + "\n" + lines;
  });
  if (ranks.size() > 1) {
    Found mine{folder_, is_one_, {}, {}};
    for (const BrokenCheckpoint& broken : passed_over_) {
      mine.broken.push_back(broken.path.string());
      mine.faults.push_back(broken.fault);
    }
    std::string text;
    protocol.in_collective(opening_checkpoint, [&] {
      text = gather_texts(OptimizerAccess::backend(optimizer_), ranks,
                          ranks.rank() == 0 ? serialize(mine) : std::string())
                 .front();
    });
    const auto found = deserialize<Found>(text);
    folder_ = found.folder;
    is_one_ = found.is_one;
    passed_over_.clear();
    for (std::size_t b = 0; b < found.broken.size(); ++b)
      passed_over_.push_back({found.broken[b], found.faults[b]});
  }
  if (folder_.empty()) return std::nullopt;
  return folder_;
}

void CheckpointSearch::pass_over(const std::string& fault) {
  passed_over_.push_back({folder_, fault});
}

void open_patiently(std::chrono::milliseconds patience, const std::function<void()>& open) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience;
  for (std::chrono::milliseconds pause(10);; pause = std::min(2 * pause, decltype(pause)(500))) {
    try {
      return open();
    } catch (const std::system_error& error) {
      const int code = error.code().value();
      if ((code != ENOENT && code != ESTALE) || Clock::now() + pause > end) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace shampoo::checkpoint
