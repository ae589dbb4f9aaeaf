// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shampoo/checkpoint_directory.h"
#include "shampoo/optimizer.h"
#include "shampoo/user_state.h"

namespace shampoo {

struct SaveOptions {
  /// N of the folder step-N, >= 0; the steps attempted so far unless set.
  std::optional<std::int64_t> step = std::nullopt;
  /// Saves derived state, too; see StateDictOptions.
  bool derived = true;
  /// Keeps only so many complete checkpoints of the directory, those with the largest steps; the
  /// others are removed once the new one is complete. 0 keeps all.
  int keep_last = 0;
};

/// A copy of a rank's state and of its share of the user state in host memory: training goes on
/// while it is saved.
class Snapshot {
 public:
  struct Data;

  explicit Snapshot(std::unique_ptr<Data> data);
  ~Snapshot();
  Snapshot(Snapshot&&) noexcept;
  Snapshot& operator=(Snapshot&&) noexcept;

  /// Steps attempted when it was made.
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

/// Writes the folder `directory`/step-N and returns it. `directory` is the same for all ranks, and
/// is made if it is missing. Every rank writes its blocks and its share of the user state into a
/// file of its own, shard-R-of-N.safetensors; manifest.json comes last.
/// shampoo/checkpoint/README.md describes the format.
///
/// Reads state and user state where they lie, if that is host memory, and makes no copy of them;
/// from other memory it copies them first, see snapshot(). They must not change before it returns.
///
/// Collective, with equal arguments; waits for the disk. A rank that fails makes all of them throw
/// the same, with its message: std::system_error with its errno for what the system refuses,
/// std::invalid_argument for bad arguments and a step-N that exists, CheckpointError for more than
/// the format allows. Checkpoints that were complete
/// stay so, the new one exists completely or not at all, and training can go on. If only the
/// removal of old checkpoints fails, the message says that the new one is complete.
std::filesystem::path save(Optimizer& optimizer, const std::filesystem::path& directory,
                           const UserState& user = {}, const SaveOptions& options = {});

/// A save that starts while another one is under way.
enum class WhileSaving : std::uint8_t {
  refuse,  ///< throws std::logic_error
  queue    ///< waits its turn, with its copy of the state
};

struct AsyncCheckpointerOptions {
  WhileSaving while_saving = WhileSaving::refuse;
};

/// How far the saves of a rank are.
struct SaveProgress {
  std::size_t unfinished = 0;  ///< number of saves not yet complete
  /// Bytes of tensors that this rank has written for the first unfinished save.
  std::int64_t written = 0;
  /// Total bytes of tensors that this rank writes for the first unfinished save.
  std::int64_t bytes = 0;
};

/// Saves while training goes on. start() copies the state to host memory; a background thread
/// writes and syncs this rank's file, and on rank 0 the manifest. The collectives of a save run in
/// start(), poll() and wait(), on the thread that calls them and over the optimizer's own
/// communicator: no second communicator is needed, nothing overlaps a step's collective, and
/// MPI_THREAD_FUNNELED is enough. So a save completes only while one of them is called now and
/// then. poll() after every step is free while nothing is being saved and one small collective
/// otherwise; a save takes at least six of them.
///
/// Holds a reference to the optimizer, which must outlive it and must not be moved. Not safe for
/// concurrent calls.
class AsyncCheckpointer {
 public:
  explicit AsyncCheckpointer(Optimizer& optimizer, const AsyncCheckpointerOptions& options = {});
  /// Waits for the thread, not for other ranks: a save that has not completed is cancelled.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;
  AsyncCheckpointer& operator=(const AsyncCheckpointer&) = delete;

  /// Begins what save() does, and returns once the state is copied. Collective, with equal
  /// arguments; throws on all ranks, before anything changed: what poll() throws, std::logic_error
  /// while another save is under way, what save() throws for its arguments.
  void start(const std::filesystem::path& directory, const UserState& user = {},
             const SaveOptions& options = {});
  /// The same for a copy that was made before.
  void start(Snapshot snapshot, const std::filesystem::path& directory,
             const SaveOptions& options = {});

  /// Advances the saves under way without waiting for the disk. Returns the folder of a save that
  /// is complete, each of them once, in their order. Collective; throws on all ranks what save()
  /// would have thrown, once for each save; the next one then goes on.
  std::optional<std::filesystem::path> poll();

  /// Waits until all saves are over. Returns the folder of the last that poll() has not returned,
  /// if there is one. Collective; throws as poll() does, and is then to be called again.
  std::optional<std::filesystem::path> wait();

  /// Not collective.
  SaveProgress progress() const;

 private:
  class BackgroundSave;

  void require_room();
  void add(Snapshot snapshot, const std::filesystem::path& directory, const SaveOptions& options);
  void advance(bool waits);

  Optimizer& optimizer_;
  AsyncCheckpointerOptions options_;
  /// Unfinished saves; only the first one advances.
  std::deque<std::unique_ptr<BackgroundSave>> saves_;
  /// Folders of complete saves not yet returned.
  std::deque<std::filesystem::path> folders_;
};

/// What becomes of user state per rank that another number of ranks saved.
enum class OtherRanks : std::uint8_t {
  refuse,
  keep  ///< it stays as it is, and is reported as missing
};

struct CheckpointOptions {
  LoadOptions state = {};  ///< options of the state dict; `strict` covers the user state, too
  bool checksums = true;   ///< whether the bytes of tensors are compared with their checksums
  OtherRanks other_ranks = OtherRanks::refuse;
};

struct LoadedCheckpoint {
  std::filesystem::path folder;
  std::int64_t step = 0;  ///< N of the folder step-N
  /// Report of the load of the optimizer on this rank.
  LoadReport state = {};
  /// Names that the checkpoint lacks; their values are unchanged.
  std::vector<std::string> missing_user_state = {};
  /// Names found only in the checkpoint, which were ignored.
  std::vector<std::string> unexpected_user_state = {};
};

/// Goes on from the latest complete checkpoint of a directory, or from the folder of one, which any
/// number of ranks may have saved; see Optimizer::load_state_dict(). Writes the tensors of `user`
/// and replaces its values, which must be of the kind that was saved. Rank 0 reads the manifest and
/// sends it to all. A rank opens only the files that have something for it, each once, and reads
/// what its own blocks and the user state need. Of that it keeps in host memory its blocks and up
/// to 64 MiB of the user state, beside the manifest and the headers of the files; larger user state
/// is verified first, and read again when all ranks have agreed to load. A disk that fails then
/// leaves it partly written, and the optimizer unusable until a load succeeds.
///
/// Collective, with equal arguments. Everything is checked on all ranks before anything changes,
/// and all throw the same: CheckpointError, with file, tensor and offset, for a checkpoint that is
/// broken or not there, std::system_error, or std::invalid_argument for one that does not fit.
LoadedCheckpoint load(Optimizer& optimizer, const std::filesystem::path& path, UserState& user,
                      const CheckpointOptions& options = {});
/// Leaves all user state out.
LoadedCheckpoint load(Optimizer& optimizer, const std::filesystem::path& path,
                      const CheckpointOptions& options = {});

}  // namespace shampoo
