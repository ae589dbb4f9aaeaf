// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shampoo/checkpoint_directory.h"
#include "shampoo/optimizer.h"
#include "shampoo/user_state.h"

namespace shampoo {

namespace checkpoint {
class SaveTask;
}

/// One of several; see Optimizers.
struct NamedOptimizer {
  std::string name;
  Optimizer& optimizer;  ///< borrowed
};

/// The optimizers of a checkpoint: one, or several of a job by name, {{"generator", a}, {"critic",
/// b}}, which are saved into one folder, complete or not there at all, and of which all are loaded
/// or none. Names are unique, 1 to 255 letters, digits, '.', '_' and '-', the first no '.'; in the
/// checkpoint the parameter "w" of "critic" is "critic/w". The optimizers may have other backends,
/// options and recipes, and other communicators of the same ranks in the same order; collectives
/// run over that of the first, and user state lies in the memory of its backend. The list is the
/// same on all ranks, its order too: calls that take one throw std::invalid_argument, on all ranks,
/// that names the optimizer.
class Optimizers {
 public:
  Optimizers(Optimizer& only) : all_{{"", only}} {}
  /// Throws std::invalid_argument if there are none.
  Optimizers(std::vector<NamedOptimizer> several);
  Optimizers(std::initializer_list<NamedOptimizer> several)
      : Optimizers(std::vector<NamedOptimizer>(several)) {}

  const std::vector<NamedOptimizer>& all() const { return all_; }
  Optimizer& first() const { return all_.front().optimizer; }
  bool are_named() const { return are_named_; }  ///< not if it is one without a name

 private:
  std::vector<NamedOptimizer> all_;
  bool are_named_ = false;
};

/// The values of all parameters, for UserState::tensors: the optimizer's state does not have them.
/// They are saved and loaded as `prefix` and the parameter's name. Borrowed; must be row-major.
std::vector<UserTensor> value_tensors(Optimizer& optimizer, const std::string& prefix = "");

struct SaveOptions {
  /// N of the folder step-N, >= 0; the steps attempted so far, of several optimizers those of the
  /// first, unless set.
  std::optional<std::int64_t> step = std::nullopt;
  /// Saves derived state, too; see StateDictOptions. Of a Snapshot, what it has.
  bool derived = true;
  /// Keeps only so many complete checkpoints of the directory, those that were written last,
  /// whatever their steps, and those which the optimizers were loaded from; the others are removed
  /// once the new one is complete. 0 keeps all.
  int keep_last = 0;
  /// Replaces a complete step-N, as a run does that went back to an earlier checkpoint. The old one
  /// is removed once the new one has its name. Broken ones, and those that resume() passed over,
  /// are replaced in any case.
  bool replace = false;
};

class SnapshotMemory;

/// A copy of a rank's state and of its share of the user state in host memory, pinned for a backend
/// on a device: training goes on while it is saved. The optimizer's backend must outlive it.
class Snapshot {
 public:
  struct Data;

  explicit Snapshot(std::unique_ptr<Data> data);
  ~Snapshot();
  Snapshot(Snapshot&&) noexcept;
  Snapshot& operator=(Snapshot&&) noexcept;

  /// Steps attempted when it was made, of the first optimizer.
  std::int64_t step() const;
  /// Bytes of the tensors in it.
  std::int64_t bytes() const;

  const Data& data() const { return *data_; }

 private:
  std::unique_ptr<Data> data_;
};

/// Copies what this rank saves. Not collective, but of use only if all ranks call it between the
/// same steps. Waits for the backend. `derived` as in StateDictOptions. Throws
/// std::invalid_argument that names a tensor or value of the user state, and what the optimizer's
/// calls throw once it can no longer be used.
Snapshot snapshot(const Optimizer& optimizer, const UserState& user = {}, bool derived = true);
Snapshot snapshot(const Optimizers& optimizers, const UserState& user = {}, bool derived = true);

/// Writes the folder `directory`/step-N and returns its absolute path. `directory` is the same for
/// all ranks, is made if it is missing, and belongs to one run at a time. Every rank writes its
/// blocks and its share of the user state into a file of its own, shard-R-of-N.safetensors;
/// manifest.json comes last. shampoo/checkpoint/README.md describes the format.
///
/// Reads state and user state where they lie, if that is host memory, and makes no copy of them;
/// from other memory it copies them first, see snapshot(). They must not change before it returns.
///
/// Collective, with equal arguments; waits for the disk, however long that takes: no rank is in a
/// collective of the communicator meanwhile, whose deadline does not count. A rank that fails makes
/// all of them throw the same, with its message: std::system_error with its errno for what the
/// system refuses, std::invalid_argument for bad arguments and a complete step-N that is not to be
/// replaced, CheckpointError for more than the format allows. Checkpoints that were complete stay
/// so, the new one exists completely or not at all, and training can go on.
///
/// Also throws std::system_error where step-N is complete, and stays, and only the removal of the
/// old step-N or of those beyond keep_last failed: the message then says "step-N is complete". Each
/// that can be removed is, and the next save tries the others again.
std::filesystem::path save(const Optimizers& optimizers, const std::filesystem::path& directory,
                           const UserState& user = {}, const SaveOptions& options = {});

/// A save that starts while another one is under way.
enum class WhileSaving : std::uint8_t {
  refuse,  ///< throws std::logic_error
  skip,    ///< does not begin
  queue    ///< waits its turn, with its copy of the state
};

struct AsyncCheckpointerOptions {
  WhileSaving while_saving = WhileSaving::refuse;
  /// With WhileSaving::queue, saves that may wait beside the one under way, each with a copy of the
  /// state, >= 0. A start() that finds as many waits until the first is over.
  int max_queued = 1;
};

/// How far the saves of a rank are.
struct SaveProgress {
  std::size_t unfinished = 0;  ///< number of saves not yet complete
  /// Bytes of tensors that this rank has written for the first unfinished save.
  std::int64_t written = 0;
  /// Total bytes of tensors that this rank writes for the first unfinished save.
  std::int64_t bytes = 0;
  /// Seconds for which the disk of this rank has not answered; 0 while it waits for poll().
  double stalled = 0;
};

/// Saves while training goes on. start() copies the state to host memory; a background thread
/// writes and syncs this rank's file, and on rank 0 the manifest. The collectives of a save run in
/// start(), poll(), wait() and cancel(), on the thread that calls them and over the optimizer's own
/// communicator: no second communicator is needed, nothing overlaps a step's collective, and
/// MPI_THREAD_FUNNELED is enough. So a save completes only while one of them is called now and
/// then. poll() after every step is free while nothing is being saved and one all-gather of 64
/// bytes per rank otherwise; a save takes three to which all ranks are ready. On a device, a poll
/// reads the all-gather of the poll before, and does not wait for the step between them.
///
/// Keeps the memory of its copies, as large as the largest state, for the next save.
///
/// Holds references to the optimizers, which must outlive it and must not be moved. Not safe for
/// concurrent calls.
class AsyncCheckpointer {
 public:
  /// Throws std::invalid_argument for options out of range.
  explicit AsyncCheckpointer(const Optimizers& optimizers,
                             const AsyncCheckpointerOptions& options = {});
  /// Cancels the saves that have not completed. Waits for the call to the disk that the thread is
  /// in, not for other ranks.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;
  AsyncCheckpointer& operator=(const AsyncCheckpointer&) = delete;

  /// Begins what save() does, and returns once the state is copied. Returns false if the save was
  /// skipped. Collective, with equal arguments; throws on all ranks, before anything changed: what
  /// poll() throws, std::logic_error while another save is under way, what save() throws for its
  /// arguments and for a step-N that is not to be replaced, for which rank 0 looks while the others
  /// wait in a collective.
  bool start(const std::filesystem::path& directory, const UserState& user = {},
             const SaveOptions& options = {});
  /// The same for a copy that was made before, of the same optimizers.
  bool start(Snapshot snapshot, const std::filesystem::path& directory,
             const SaveOptions& options = {});

  /// Advances the saves under way without waiting for the disk. Returns the folder of a save that
  /// is complete, each of them once, in their order. Collective; throws on all ranks what save()
  /// would have thrown, once for each save; the next one then goes on.
  std::optional<std::filesystem::path> poll();

  /// Waits until all saves are over. Returns the folder of the last that poll() has not returned,
  /// if there is one. Collective; throws as poll() does, and is then to be called again.
  std::optional<std::filesystem::path> wait();

  /// Ends all saves: one that is being written completes if it cannot be stopped any more, the
  /// others leave nothing behind. Waits for the disk only as the destructor does. Collective;
  /// throws CommunicationError.
  void cancel();

  /// Not collective.
  SaveProgress progress() const;

 private:
  bool make_room();
  void add(const std::function<Snapshot()>& take, const std::filesystem::path& directory,
           const SaveOptions& options);
  void advance(bool waits);
  void finish_first();
  std::shared_ptr<SnapshotMemory> free_memory(const Optimizer& optimizer);

  Optimizers optimizers_;
  AsyncCheckpointerOptions options_;
  /// Unfinished saves; only the first one advances.
  std::deque<std::unique_ptr<checkpoint::SaveTask>> saves_;
  /// Folders of complete saves not yet returned.
  std::deque<std::filesystem::path> folders_;
  /// Of copies; one that no save shares is free.
  std::vector<std::shared_ptr<SnapshotMemory>> memories_;
};

/// What becomes of user state per rank that another number of ranks saved.
enum class OtherRanks : std::uint8_t {
  refuse,
  /// It stays as it is, and is reported in LoadedCheckpoint::missing_user_state;
  /// LoadOptions::strict accepts that.
  keep
};

struct CheckpointOptions {
  /// Options of the state dict; `strict` covers the user state, too. With several optimizers they
  /// are those of each: `prefix` is of its own names, and `rename` gives its own name for that in
  /// the checkpoint, "critic/w". Without `strict` the checkpoint may have further optimizers.
  LoadOptions state = {};
  bool checksums = true;  ///< whether the bytes of tensors are compared with their checksums
  OtherRanks other_ranks = OtherRanks::refuse;
};

struct LoadedCheckpoint {
  std::filesystem::path folder;  ///< absolute
  std::int64_t step = 0;         ///< N of the folder step-N
  /// Report of the load of the optimizer on this rank; of several with the names "critic/w".
  LoadReport state = {};
  /// Names that the checkpoint lacks, or that OtherRanks::keep leaves alone; their values are
  /// unchanged.
  std::vector<std::string> missing_user_state = {};
  /// Names found only in the checkpoint, which were ignored.
  std::vector<std::string> unexpected_user_state = {};
  /// Broken checkpoints of the directory that were found on the way to this one, and why.
  std::vector<BrokenCheckpoint> passed_over = {};
};

/// Goes on from the latest good checkpoint of a directory: of those that are complete the one that
/// was written last, or, where the bytes of that are wrong, the one before. Returns nothing if the
/// directory has no checkpoint or does not exist: then the run begins. Otherwise as load().
///
/// All ranks load the same folder, which rank 0 has found; the others wait up to 30 s until their
/// file systems show it, too. Throws CheckpointError, with all faults, if there are checkpoints but
/// none is good: a run must not begin anew unnoticed.
std::optional<LoadedCheckpoint> resume(const Optimizers& optimizers,
                                       const std::filesystem::path& directory, UserState& user,
                                       const CheckpointOptions& options = {});
/// Leaves all user state out.
std::optional<LoadedCheckpoint> resume(const Optimizers& optimizers,
                                       const std::filesystem::path& directory,
                                       const CheckpointOptions& options = {});

/// Loads the folder of a checkpoint, or of a directory the one that resume() would load; any number
/// of ranks may have saved it; see Optimizer::load_state_dict(). Writes the tensors of `user` and
/// replaces its values, which must be of the kind that was saved. Rank 0 reads the manifest and
/// sends it to all. A rank opens only the files that have something for it, each once, and reads
/// what its own blocks and the user state need, for which the others wait within the deadline of
/// the communicator. Of that it keeps in host memory its blocks and up to 64 MiB of the user state,
/// beside the manifest and the headers of the files; larger user state is verified first, and read
/// again when all ranks have agreed to load. A disk that fails then leaves its tensors partly
/// written, and the optimizers with their own state, but unusable until a load succeeds: all ranks
/// throw what the disk said. Removes no files, so that it may look where another job saves; the
/// next save into the directory removes what interrupted saves and removals had left there.
///
/// To go back for good to an earlier checkpoint, load its folder: the next save is the latest of
/// the directory, whatever its step.
///
/// Several optimizers are found by their names, in any order; the checkpoint must have been saved
/// from a list, of these names. Its part for one of them is loaded by a list of that one without
/// LoadOptions::strict.
///
/// Collective, with equal arguments. Everything is checked on all ranks before anything changes,
/// and all throw the same, with what they hold unchanged but for that failing disk:
/// CheckpointError, with file, tensor and offset, for a checkpoint that is broken or not there,
/// std::system_error, or std::invalid_argument for one that does not fit.
LoadedCheckpoint load(const Optimizers& optimizers, const std::filesystem::path& path,
                      UserState& user, const CheckpointOptions& options = {});
/// Leaves all user state out.
LoadedCheckpoint load(const Optimizers& optimizers, const std::filesystem::path& path,
                      const CheckpointOptions& options = {});

}  // namespace shampoo
