// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "shampoo/checkpoint.h"

namespace shampoo {

/// What becomes of a save that starts while another one is under way.
enum class WhileSaving : std::uint8_t {
  refuse,  ///< std::logic_error
  queue    ///< it waits its turn, with its copy of the state
};

struct SaverOptions {
  WhileSaving while_saving = WhileSaving::refuse;
};

/// How far the saves of a rank are.
struct SaveProgress {
  std::size_t unfinished = 0;  ///< saves
  std::int64_t written = 0;    ///< bytes of tensors of the first of them, by this rank
  std::int64_t bytes = 0;      ///< that it will have written
};

/// Saves while training goes on. start() copies the state to host memory; a thread writes and syncs
/// this rank's file, and rank 0's the manifest. What ranks have to agree on on the way happens in
/// poll(), start() and wait(), on the thread that calls them and over the optimizer's own
/// communicator. So a save needs no second communicator, nothing runs beside a step's collective,
/// and MPI need not know of the thread (MPI_THREAD_FUNNELED is enough, over Gloo nothing is
/// shared). But a save completes only while one of them is called now and then: poll() after every
/// step costs nothing while nothing is being saved, and one small collective otherwise; a save
/// takes six of them at least.
///
/// Borrows the optimizer, which must neither go nor move. Not safe for concurrent calls.
class Saver {
 public:
  explicit Saver(Optimizer& optimizer, const SaverOptions& options = {});
  /// Waits for the thread, not for other ranks: a save that has not completed is given up.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Begins what save() does, and returns once the state is copied. Collective, with equal
  /// arguments; throws on all ranks, before anything changed: what poll() throws, std::logic_error
  /// while another save is under way, what save() throws for its arguments.
  void start(const std::filesystem::path& root, const Extras& extras = {},
             const SaveOptions& options = {});
  /// The same for a copy that was made before.
  void start(Snapshot snapshot, const std::filesystem::path& root, const SaveOptions& options = {});

  /// Takes what is under way further without waiting for the disk. Returns the folder of a save
  /// that is complete, each of them once, in their order. Collective; throws on all ranks what
  /// save() would have thrown, once for each save; the next one then goes on.
  std::optional<std::filesystem::path> poll();

  /// Waits until all saves are over. Returns the folder of the last that poll() has not told of, if
  /// there is one. Collective; throws as poll() does, and is then to be called again.
  std::optional<std::filesystem::path> wait();

  /// Not collective.
  SaveProgress progress() const;

 private:
  class Job;
  class Jobs;
  std::unique_ptr<Jobs> jobs_;
};

}  // namespace shampoo
