// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shampoo/state_dict.h"
#include "shampoo/user_state.h"

namespace shampoo {

/// A broken, incomplete or foreign checkpoint; the message names file, tensor and offset. Errors of
/// the system (a full disk, a file that may not be read) are std::system_error instead.
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A complete checkpoint: its manifest is right and its files have the sizes that it says.
struct CompleteCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;
  /// Orders the checkpoints of a directory: that with the largest was written last.
  std::int64_t sequence = 0;
  std::string save;    ///< unique id
  std::string parent;  ///< `save` of the checkpoint that its run went on from; may be empty
};

/// A folder with the name of a checkpoint that says itself that it is none: its manifest is
/// missing, cannot be read by this version or is wrong, or a file is missing or has another size.
struct BrokenCheckpoint {
  std::filesystem::path path;
  std::string fault;
};

/// The checkpoints of a directory. Other entries are ignored, symbolic links too.
struct CheckpointListing {
  std::vector<CompleteCheckpoint> complete;  ///< in the order of writing, the latest last
  std::vector<BrokenCheckpoint> broken;      ///< sorted by name
  /// Temporary directories of interrupted saves and removals, sorted by name.
  std::vector<std::filesystem::path> stale;
};

/// The checkpoints of a directory; none if it does not exist. Reads all manifests. Throws
/// std::system_error, also for a folder that cannot be read, which does not make it broken, and for
/// a symbolic link that leads nowhere.
CheckpointListing list_checkpoints(const std::filesystem::path& directory);

/// The complete checkpoint that was written last, whatever its step: the latest of the branch that
/// was trained. Reads one manifest, and the first lines of the others. Not for a decision that all
/// ranks must share: see resume(). Throws std::system_error.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

/// Removes the temporary directories of saves and removals that ended early, and returns them. For
/// one rank, while no save is running in `directory`. Throws std::system_error, the first, once it
/// has tried them all.
std::vector<std::filesystem::path> remove_stale_directories(const std::filesystem::path& directory);

/// Removes all complete checkpoints but the `count` that were written last, and returns them. A
/// crash leaves each of them complete or stale. For one rank. Throws std::invalid_argument unless
/// count >= 1, std::system_error, the first, once it has tried them all.
std::vector<std::filesystem::path> prune_checkpoints(const std::filesystem::path& directory,
                                                     int count);

/// What a tensor of a checkpoint is.
struct SavedTensorInfo {
  std::string name = {};
  std::vector<std::int64_t> shape = {};
  checkpoint::Dtype dtype = checkpoint::Dtype::f32;

  bool operator==(const SavedTensorInfo&) const = default;
};

/// A tensor of a checkpoint in host memory, row-major. Copies share the memory, which nobody writes
/// to and which lives as long as one of them.
struct SavedTensor : SavedTensorInfo {
  std::shared_ptr<const std::byte[]> data = nullptr;
  std::size_t bytes = 0;

  /// Its elements: float, double, an integer of the dtype's size and sign; std::uint16_t for the
  /// bits of bf16 and f16, std::uint8_t for those of types of 8 bits; std::byte for the bytes of
  /// all. Throws std::invalid_argument, naming tensor and dtype, for another type.
  template <typename Element>
  std::span<const Element> elements() const {
    static_assert(std::is_arithmetic_v<Element> || std::is_same_v<Element, std::byte>);
    if constexpr (!std::is_same_v<Element, std::byte>)
      require_elements(sizeof(Element), std::is_floating_point_v<Element>,
                       std::is_signed_v<Element>);
    return {reinterpret_cast<const Element*>(data.get()), bytes / sizeof(Element)};
  }

 private:
  void require_elements(std::size_t size, bool floating, bool is_signed) const;
};

namespace checkpoint {
class SavedStateReader;
}

/// A checkpoint for programs without an optimizer: of one process, whatever number of ranks saved
/// it. Has the manifest in memory, and reads a tensor from its files whenever it is asked for: of
/// that, nothing stays here. Not safe for concurrent calls.
class SavedState {
 public:
  explicit SavedState(std::unique_ptr<const checkpoint::SavedStateReader> reader);
  ~SavedState();
  SavedState(SavedState&&) noexcept;
  SavedState& operator=(SavedState&&) noexcept;

  std::int64_t step() const;         ///< N of the folder step-N
  int ranks() const;                 ///< number of ranks that saved it
  const Progress& progress() const;  ///< of several optimizers that of the first
  /// Of each optimizer, by its name; empty if the checkpoint is of one without a name. Names of
  /// their parameters and tensors are "critic/w".
  std::map<std::string, Progress> optimizers() const;
  /// Of all parameters, sorted by name: shapes, steps, rates, recipes; without their blocks.
  const std::vector<ParameterState>& parameters() const;
  /// The trainer's values that all ranks share, and those of one rank. Throws std::out_of_range for
  /// a rank that did not save.
  const std::map<std::string, UserValue>& user_values() const;
  std::map<std::string, UserValue> rank_values(int rank) const;

  /// The optimizer's tensors, as find() gives them, and the trainer's. Of a trainer's tensor that
  /// each rank has for itself, that of rank 0.
  std::vector<SavedTensorInfo> tensors() const;
  std::vector<SavedTensorInfo> user_tensors() const;

  /// "PARAMETER/SLOT" for a slot with a number for each element, put together from the ranks'
  /// blocks, in the shape of the parameter; of any other slot "PARAMETER/SLOT/OFFSET" for each
  /// block, the offset joined by dots: n x n for symmetric and other matrices, n for a vector.
  /// Roots that were saved in float16 are those that the step applies, their scales multiplied in.
  /// Empty if there is none. Throws CheckpointError, with file and tensor, std::system_error.
  std::optional<SavedTensor> find(std::string_view name) const;
  /// A tensor of the trainer's; `rank`: whose, if each rank has its own. As find().
  std::optional<SavedTensor> find_user(std::string_view name, int rank = 0) const;

 private:
  std::unique_ptr<const checkpoint::SavedStateReader> reader_;
};

/// Opens a checkpoint: a folder step-N, or of a directory of such the latest. `checksums`: tensors
/// are compared with theirs as they are read. Throws CheckpointError for a checkpoint that is
/// broken or not there, std::system_error.
SavedState read_state_dict(const std::filesystem::path& path, bool checksums = true);

}  // namespace shampoo
