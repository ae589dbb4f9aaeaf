// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>

#include "distributor/text_consensus.h"
#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/read_state.h"
#include "shampoo/checkpoint/read_user_state.h"
#include "shampoo/state/export_state.h"
#include "shampoo/state/import_state.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo {

namespace {

using checkpoint::Checksums;
using checkpoint::UserStateLoad;

/// The folder of one checkpoint: the path itself, or the latest complete one of a directory.
std::filesystem::path resolve(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / checkpoint::manifest_name)) return path;
  const CheckpointListing listing = list_checkpoints(path);
  if (!listing.complete.empty()) return listing.complete.back().path;
  std::string text = path.string() + ": there is no complete checkpoint";
  for (const BrokenCheckpoint& broken : listing.broken)
    text += "; " + broken.path.filename().string() + " is broken: " + broken.fault;
  throw CheckpointError(text);
}

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

  LoadedCheckpoint run(const std::filesystem::path& path) {
    agree_on_folder(path);
    protocol_.load([&] { return examine(); },
                   [&](Statistics& statistics) { return replace(statistics); });
    loaded_.state = std::move(state_->report());
    return std::move(loaded_);
  }

 private:
  /// Rank 0 looks for the latest one, as others may not see it yet, and reads the manifest for all.
  void agree_on_folder(const std::filesystem::path& path) {
    if (!communicator_.failure().empty()) protocol_.check_usable();
    std::string folder;
    protocol_.vote(opening_checkpoint, "call", [&] {
      if (communicator_.rank() == 0) {
        folder = resolve(path).string();
        manifest_ = checkpoint::read_manifest_text(
            folder / std::filesystem::path(checkpoint::manifest_name));
      }
      return "checkpoint: " + path.string() + "\n";
    });
    protocol_.in_collective([&] {
      loaded_.folder = gather_texts(backend_, communicator_, folder).front();
      manifest_ = gather_texts(backend_, communicator_, manifest_).front();
    });
  }

  std::string examine() {
    const checkpoint::Reader& reader =
        reader_.emplace(loaded_.folder, std::exchange(manifest_, std::string()));
    const auto checksums = options_.checksums ? Checksums::compare : Checksums::skip;
    loaded_.step = reader.manifest().step;
    const checkpoint::StateReader state(reader, checksums);
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
    for (const auto& [group, rates] : state_->rates()) optimizer_.group(group).rates = rates;
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
  std::string manifest_;
  std::optional<checkpoint::Reader> reader_;
  StateDict dict_;
  std::optional<StateImport> state_;
  std::optional<UserStateLoad> user_load_;
};

}  // namespace

LoadedCheckpoint load(Optimizer& optimizer, const std::filesystem::path& path, UserState& user,
                      const CheckpointOptions& options) {
  return LoadTask(optimizer, &user, options).run(path);
}

LoadedCheckpoint load(Optimizer& optimizer, const std::filesystem::path& path,
                      const CheckpointOptions& options) {
  return LoadTask(optimizer, nullptr, options).run(path);
}

}  // namespace shampoo
