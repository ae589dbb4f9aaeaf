// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "distributor/text_consensus.h"
#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/read_user_state.h"
#include "shampoo/state/export_state.h"
#include "shampoo/state/import_state.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo {

namespace {

using checkpoint::Checksums;
using checkpoint::ExtrasLoad;
using checkpoint::Reader;
using checkpoint::StateReader;

/// The checkpoint that a path means.
std::filesystem::path resolve(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / checkpoint::manifest_name)) return path;
  const checkpoint::Listing listing = checkpoint::list_folders(path);
  if (!listing.complete.empty()) return listing.complete.back().path;
  std::string text = path.string() + ": there is no complete checkpoint";
  for (const checkpoint::BrokenFolder& broken : listing.broken)
    text += "; " + broken.path.filename().string() + " is broken: " + broken.fault;
  throw CheckpointError(text);
}

/// One load of one rank.
class Loading {
 public:
  Loading(Optimizer& optimizer, Extras* extras, const CheckpointOptions& options)
      : optimizer_(optimizer),
        backend_(OptimizerAccess::backend(optimizer)),
        communicator_(OptimizerAccess::communicator(optimizer)),
        stepper_(OptimizerAccess::protocol(optimizer)),
        extras_(extras),
        options_(options) {}

  LoadedCheckpoint run(const std::filesystem::path& path) {
    loaded_.folder = agree_on_folder(path);
    stepper_.load([&] { return examine(); },
                  [&](Statistics& statistics) { return replace(statistics); });
    loaded_.state = std::move(state_->report());
    return std::move(loaded_);
  }

 private:
  /// Rank 0 looks for the latest one, as others may not see it yet.
  std::filesystem::path agree_on_folder(const std::filesystem::path& path) {
    if (!communicator_.failure().empty()) stepper_.check_usable();
    std::string folder;
    stepper_.vote(opening_checkpoint, "call", [&] {
      if (communicator_.rank() == 0) folder = resolve(path).string();
      return "checkpoint: " + path.string() + "\n";
    });
    stepper_.together([&] { folder = gather_texts(backend_, communicator_, folder).front(); });
    return folder;
  }

  std::string examine() {
    const Engine& engine = OptimizerAccess::engine(optimizer_);
    const Reader reader(loaded_.folder);
    loaded_.step = reader.manifest().step;
    const StateReader state(reader, options_.checksums ? Checksums::compare : Checksums::skip);
    if (extras_) {
      read_extras_.emplace(state, reader.manifest(), *extras_, options_.state.strict);
      loaded_.missing_extras = read_extras_->missing();
      loaded_.unexpected_extras = read_extras_->unexpected();
    }
    dict_ = state.read(export_state(backend_, engine, {.contents = false}), options_.state.prefix);
    state_.emplace(backend_, OptimizerAccess::engine(optimizer_), dict_, options_.state);
    return "save: " + reader.manifest().save + "\n" + state_->lines();
  }

  Progress replace(Statistics& statistics) {
    for (const auto& [group, rates] : state_->rates()) optimizer_.group(group).rates = rates;
    state_->replace(statistics);
    if (read_extras_) read_extras_->replace(backend_, *extras_);
    return dict_.progress;
  }

  Optimizer& optimizer_;
  Backend& backend_;
  Communicator& communicator_;
  StepProtocol& stepper_;
  Extras* extras_;
  const CheckpointOptions& options_;
  LoadedCheckpoint loaded_;
  StateDict dict_;
  std::optional<StateLoad> state_;
  std::optional<ExtrasLoad> read_extras_;
};

}  // namespace

LoadedCheckpoint load(Optimizer& optimizer, const std::filesystem::path& path, Extras& extras,
                      const CheckpointOptions& options) {
  return Loading(optimizer, &extras, options).run(path);
}

LoadedCheckpoint load(Optimizer& optimizer, const std::filesystem::path& path,
                      const CheckpointOptions& options) {
  return Loading(optimizer, nullptr, options).run(path);
}

}  // namespace shampoo
