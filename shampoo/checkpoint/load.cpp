// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "distributor/text_consensus.h"
#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/find_checkpoint.h"
#include "shampoo/checkpoint/read_state.h"
#include "shampoo/checkpoint/read_user_state.h"
#include "shampoo/state/export_state.h"
#include "shampoo/state/import_state.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo {

namespace {

using checkpoint::CheckpointSearch;
using checkpoint::Checksums;
using checkpoint::UserStateLoad;

/// For which other ranks wait for a file that rank 0 has seen.
constexpr std::chrono::seconds patience(30);

/// One load of one rank.
class LoadTask {
 public:
  LoadTask(Optimizer& optimizer, UserState* user, const CheckpointOptions& options)
      : optimizer_(optimizer),
        backend_(OptimizerAccess::backend(optimizer)),
        communicator_(OptimizerAccess::communicator(optimizer)),
        protocol_(OptimizerAccess::protocol(optimizer)),
        user_(user),
        options_(options) {}

  /// Throws CheckpointError where it is broken, with nothing changed.
  LoadedCheckpoint run(const std::filesystem::path& folder) {
    loaded_.folder = folder;
    share_manifest();
    protocol_.load([&] { return examine(); },
                   [&](Statistics& statistics) { return replace(statistics); });
    loaded_.state = std::move(state_->report());
    return std::move(loaded_);
  }
  const std::string& save() const { return save_; }

 private:
  /// Rank 0 reads the manifest for all.
  void share_manifest() {
    protocol_.vote(opening_checkpoint, "manifest", [&] {
      if (communicator_.rank() == 0)
        manifest_ = checkpoint::read_manifest_text(
            loaded_.folder / std::filesystem::path(checkpoint::manifest_name));
      return std::string();
    });
    protocol_.in_collective(opening_checkpoint, [&] {
      manifest_ = gather_texts(backend_, communicator_, manifest_).front();
    });
  }

  std::string examine() {
    std::string lines;
    const auto match = [&] { lines = match_files(); };
    communicator_.rank() == 0 ? match() : checkpoint::open_patiently(patience, match);
    manifest_.clear();
    return lines;
  }

  std::string match_files() {
    const checkpoint::Reader& reader = reader_.emplace(loaded_.folder, manifest_);
    save_ = reader.manifest().save;
    const auto checksums = options_.checksums ? Checksums::compare : Checksums::skip;
    loaded_.step = reader.manifest().step;
    const checkpoint::StateReader state(reader, checksums, options_.state.rename);
    Engine& engine = OptimizerAccess::engine(optimizer_);
    dict_ = state.read(export_state(backend_, engine, {.contents = false}), options_.state.prefix);
    if (user_) {
      user_load_.emplace(reader, *user_, options_,
                         UserStateLoad::Place{communicator_.rank(), communicator_.size()});
      loaded_.missing_user_state = user_load_->missing();
      loaded_.unexpected_user_state = user_load_->unexpected();
    }
    state_.emplace(backend_, engine, dict_, options_.state);
    return "save: " + reader.manifest().save + "\n" + state_->lines();
  }

  Progress replace(Statistics& statistics) {
    // Its files are read once more.
    if (user_load_) user_load_->replace(backend_, *user_);
    OptimizerAccess::replace_rates(optimizer_, *state_);
    state_->replace(statistics);
    return dict_.progress;
  }

  Optimizer& optimizer_;
  kernels::Backend& backend_;
  Communicator& communicator_;
  StepProtocol& protocol_;
  UserState* user_;
  const CheckpointOptions& options_;
  LoadedCheckpoint loaded_;
  std::string save_;
  std::string manifest_;
  std::optional<checkpoint::Reader> reader_;
  StateDict dict_;
  std::optional<StateImport> state_;
  std::optional<UserStateLoad> user_load_;
};

/// The latest good one of a path, if there is a checkpoint.
std::optional<LoadedCheckpoint> load_latest(Optimizer& optimizer, const std::filesystem::path& path,
                                            UserState* user, const CheckpointOptions& options) {
  CheckpointSearch search(optimizer, path);
  while (const auto folder = search.next()) {
    LoadTask task(optimizer, user, options);
    try {
      LoadedCheckpoint loaded = task.run(*folder);
      loaded.passed_over = search.passed_over();
      CheckpointLineage& lineage = OptimizerAccess::lineage(optimizer);
      lineage.latest = lineage.loaded = task.save();
      ++lineage.loads;
      lineage.passed_over.clear();
      for (const BrokenCheckpoint& broken : loaded.passed_over)
        lineage.passed_over.insert(broken.path);
      return loaded;
    } catch (const CheckpointError& error) {
      if (search.is_one()) throw;
      search.pass_over(error.what());
    }
  }
  if (search.passed_over().empty()) return std::nullopt;
  std::string text = path.string() + ": there is no good checkpoint";
  for (const BrokenCheckpoint& broken : search.passed_over())
    text += "; " + broken.path.filename().string() + " is broken: " + broken.fault;
  throw CheckpointError(text);
}

LoadedCheckpoint load_existing(Optimizer& optimizer, const std::filesystem::path& path,
                               UserState* user, const CheckpointOptions& options) {
  auto loaded = load_latest(optimizer, path, user, options);
  if (!loaded)
    throw CheckpointError(path.string() +
                          ": there is no checkpoint, no complete folder step-N; resume() accepts "
                          "that, and returns nothing");
  return std::move(*loaded);
}

}  // namespace

LoadedCheckpoint load(Optimizer& optimizer, const std::filesystem::path& path, UserState& user,
                      const CheckpointOptions& options) {
  return load_existing(optimizer, path, &user, options);
}

LoadedCheckpoint load(Optimizer& optimizer, const std::filesystem::path& path,
                      const CheckpointOptions& options) {
  return load_existing(optimizer, path, nullptr, options);
}

std::optional<LoadedCheckpoint> resume(Optimizer& optimizer, const std::filesystem::path& directory,
                                       UserState& user, const CheckpointOptions& options) {
  return load_latest(optimizer, directory, &user, options);
}

std::optional<LoadedCheckpoint> resume(Optimizer& optimizer, const std::filesystem::path& directory,
                                       const CheckpointOptions& options) {
  return load_latest(optimizer, directory, nullptr, options);
}

}  // namespace shampoo
