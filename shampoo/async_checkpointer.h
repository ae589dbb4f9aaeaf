// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>

#include "shampoo/checkpoint.h"

namespace shampoo {

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
  std::size_t unfinished = 0;  ///< saves
  std::int64_t written = 0;    ///< bytes of tensors of the first of them, by this rank
  std::int64_t bytes = 0;      ///< that this rank will have written in all
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
  std::deque<std::unique_ptr<BackgroundSave>> saves_;  ///< the first one is served, others wait
  std::deque<std::filesystem::path> folders_;          ///< complete, not yet returned
};

}  // namespace shampoo
