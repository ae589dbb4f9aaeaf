// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "distributor/text_consensus.h"
#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/find_checkpoint.h"
#include "shampoo/checkpoint/lineage.h"
#include "shampoo/checkpoint/named_optimizers.h"
#include "shampoo/checkpoint/read_state.h"
#include "shampoo/checkpoint/read_user_state.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/state/export_state.h"
#include "shampoo/state/import_state.h"
#include "shampoo/state/match_parameters.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo {

namespace {

using checkpoint::CheckpointSearch;
using checkpoint::Checksums;
using checkpoint::UserStateLoad;

/// For which other ranks wait for a file that rank 0 has seen.
constexpr std::chrono::seconds patience(30);

/// Reads; a file that is not there makes a checkpoint broken.
void read_files(const std::filesystem::path& folder, const std::function<void()>& read) {
  if (const auto fault = checkpoint::fault_of(folder, read)) throw CheckpointError(*fault);
}

/// The state of one optimizer, on its way.
struct OptimizerLoad {
  explicit OptimizerLoad(const NamedOptimizer& whose) : named(whose) {}

  const NamedOptimizer& named;
  StateDict dict;
  std::optional<StateImport> state;

  Optimizer& optimizer() const { return named.optimizer; }
  kernels::Backend& backend() const { return OptimizerAccess::backend(optimizer()); }
  Engine& engine() const { return OptimizerAccess::engine(optimizer()); }

  void read(const checkpoint::Reader& reader, const CheckpointOptions& options) {
    const auto checksums = options.checksums ? Checksums::compare : Checksums::skip;
    const checkpoint::StateReader saved(reader, checksums, options.state.rename, named.name);
    dict = saved.read(export_state(backend(), engine(), {.contents = false}), options.state.prefix);
  }

  /// Lines that must be equal on all ranks.
  std::string examine(const LoadOptions& options) {
    if (named.name.empty()) return state.emplace(backend(), engine(), dict, options).lines();
    const std::string who = "optimizer '" + named.name + "'";
    try {
      return who + "\n" + state.emplace(backend(), engine(), dict, options).lines();
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(who + ": " + error.what());
    }
  }

  Progress replace(Statistics& statistics) {
    OptimizerAccess::replace_rates(optimizer(), *state);
    state->replace(statistics);
    return dict.progress;
  }

  void add_to(LoadReport& all) const {
    const auto add = [&](std::vector<std::string>& into, const std::vector<std::string>& names) {
      for (const std::string& name : names) into.push_back(checkpoint::scope_of(named.name) + name);
    };
    const LoadReport& own = state->report();
    add(all.missing, own.missing);
    add(all.unexpected, own.unexpected);
    add(all.frozen, own.frozen);
    add(all.restarted, own.restarted);
    add(all.recomputed, own.recomputed);
    if (all.other_arithmetic.empty()) all.other_arithmetic = own.other_arithmetic;
  }
};

/// One load of one rank.
class LoadTask {
 public:
  LoadTask(const Optimizers& optimizers, UserState* user, const CheckpointOptions& options)
      : optimizers_(optimizers),
        backend_(OptimizerAccess::backend(optimizers.first())),
        communicator_(OptimizerAccess::communicator(optimizers.first())),
        protocol_(OptimizerAccess::protocol(optimizers.first())),
        user_(user),
        options_(options) {}

  /// Throws CheckpointError where it is broken, with nothing changed but tensors of the user.
  LoadedCheckpoint run(const std::filesystem::path& folder) {
    loaded_.folder = folder;
    share_manifest();
    std::vector<StepProtocol*> protocols;
    for (const NamedOptimizer& named : optimizers_.all())
      protocols.push_back(&OptimizerAccess::protocol(named.optimizer));
    StepProtocol::load_all(
        protocols, [&] { return examine(); },
        [&](std::size_t i, Statistics& statistics) { return replace(i, statistics); },
        [&] { write_user(); });
    for (const OptimizerLoad& load : loads_) load.add_to(loaded_.state);
    return std::move(loaded_);
  }
  const std::string& save() const { return save_; }
  /// True once tensors of the user may have been written, on any rank.
  bool has_written() const { return has_written_; }

 private:
  /// Rank 0 reads the manifest for all.
  void share_manifest() {
    protocol_.vote(opening_checkpoint, "manifest", [&] {
      if (communicator_.rank() == 0)
        read_files(loaded_.folder, [&] {
          manifest_ = checkpoint::read_manifest_text(
              loaded_.folder / std::filesystem::path(checkpoint::manifest_name));
        });
      return std::string();
    });
    protocol_.in_collective(opening_checkpoint, [&] {
      manifest_ = gather_texts(backend_, communicator_, manifest_).front();
    });
  }

  std::string examine() {
    std::string lines;
    const auto match = [&] { lines = match_files(); };
    read_files(loaded_.folder, [&] {
      communicator_.rank() == 0 ? match() : checkpoint::open_patiently(patience, match);
    });
    manifest_.clear();
    return lines;
  }

  std::string match_files() {
    const checkpoint::Reader& reader = reader_.emplace(loaded_.folder, manifest_);
    save_ = reader.manifest().save;
    loaded_.step = reader.manifest().step;
    checkpoint::require_saved(reader.manifest(), optimizers_, options_.state.strict);
    loads_.clear();
    std::vector<std::span<const RegisteredParameter>> parameters;
    for (const NamedOptimizer& named : optimizers_.all())
      parameters.push_back(std::as_const(loads_.emplace_back(named).engine()).parameters());
    require_prefix(parameters, options_.state);
    for (OptimizerLoad& load : loads_) load.read(reader, options_);
    if (user_) {
      user_load_.emplace(reader, *user_, options_,
                         UserStateLoad::Place{communicator_.rank(), communicator_.size()});
      loaded_.missing_user_state = user_load_->missing();
      loaded_.unexpected_user_state = user_load_->unexpected();
    }
    std::string lines = "save: " + save_ + "\n";
    for (OptimizerLoad& load : loads_) lines += load.examine(options_.state);
    return lines;
  }

  /// Its files are read once more.
  void write_user() {
    if (!user_load_) return;
    has_written_ = true;
    read_files(loaded_.folder, [&] { user_load_->write_tensors(backend_, *user_); });
  }

  Progress replace(std::size_t i, Statistics& statistics) {
    if (i == 0 && user_load_) user_load_->replace_values(*user_);
    return loads_[i].replace(statistics);
  }

  const Optimizers& optimizers_;
  /// Of the first, over whose communicator the ranks vote.
  kernels::Backend& backend_;
  Communicator& communicator_;
  StepProtocol& protocol_;
  UserState* user_;
  const CheckpointOptions& options_;
  LoadedCheckpoint loaded_;
  std::string save_;
  std::string manifest_;
  std::optional<checkpoint::Reader> reader_;
  std::deque<OptimizerLoad> loads_;  ///< which are not moved
  std::optional<UserStateLoad> user_load_;
  bool has_written_ = false;
};

/// The latest good one of a path, if there is a checkpoint.
std::optional<LoadedCheckpoint> load_latest(const Optimizers& optimizers,
                                            const std::filesystem::path& path, UserState* user,
                                            const CheckpointOptions& options) {
  CheckpointSearch search(optimizers, path, user);
  while (const auto folder = search.next()) {
    LoadTask task(optimizers, user, options);
    try {
      LoadedCheckpoint loaded = task.run(*folder);
      loaded.passed_over = search.passed_over();
      checkpoint::note_loaded(optimizers, task.save(), loaded.passed_over);
      return loaded;
    } catch (const CheckpointError& error) {
      if (search.is_one() || task.has_written()) throw;
      search.pass_over(error.what());
    }
  }
  if (search.passed_over().empty()) return std::nullopt;
  std::string text = path.string() + ": there is no good checkpoint";
  for (const BrokenCheckpoint& broken : search.passed_over())
    text += "; " + broken.path.filename().string() + " is broken: " + broken.fault;
  throw CheckpointError(text);
}

LoadedCheckpoint load_existing(const Optimizers& optimizers, const std::filesystem::path& path,
                               UserState* user, const CheckpointOptions& options) {
  auto loaded = load_latest(optimizers, path, user, options);
  if (!loaded)
    throw CheckpointError(path.string() +
                          ": there is no checkpoint, no complete folder step-N; resume() accepts "
                          "that, and returns nothing");
  return std::move(*loaded);
}

}  // namespace

LoadedCheckpoint load(const Optimizers& optimizers, const std::filesystem::path& path,
                      UserState& user, const CheckpointOptions& options) {
  return load_existing(optimizers, path, &user, options);
}

LoadedCheckpoint load(const Optimizers& optimizers, const std::filesystem::path& path,
                      const CheckpointOptions& options) {
  return load_existing(optimizers, path, nullptr, options);
}

std::optional<LoadedCheckpoint> resume(const Optimizers& optimizers,
                                       const std::filesystem::path& directory, UserState& user,
                                       const CheckpointOptions& options) {
  return load_latest(optimizers, directory, &user, options);
}

std::optional<LoadedCheckpoint> resume(const Optimizers& optimizers,
                                       const std::filesystem::path& directory,
                                       const CheckpointOptions& options) {
  return load_latest(optimizers, directory, nullptr, options);
}

}  // namespace shampoo
