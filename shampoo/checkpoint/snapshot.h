// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/format/dtype.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/state/export_state.h"

namespace shampoo {

/// A user tensor. One rank writes it: each its own, if it is per rank.
struct SnapshotTensor {
  std::string name;
  checkpoint::Dtype dtype = checkpoint::Dtype::f32;
  std::vector<std::int64_t> shape;
  Sharding sharding = Sharding::shared;
  int writer = 0;
  std::uint64_t sample = 0;  ///< XXH3 of a sample of the bytes; of shared tensors
  /// Bytes on the writer: in the copy, or in the memory of the trainer.
  std::span<const std::byte> bytes;
};

/// Host memory of one snapshot after the other, which downloads reach without an intermediate copy.
class SnapshotMemory {
 public:
  explicit SnapshotMemory(kernels::Backend& backend) : backend_(backend) {}

  const kernels::Backend& backend() const { return backend_; }
  /// At least `bytes`, in the memory of before if that is enough. Throws std::bad_alloc.
  std::byte* reserve(std::size_t bytes);

 private:
  kernels::Backend& backend_;
  kernels::HostBuffer memory_;
  std::size_t capacity_ = 0;
};

/// How a parameter is cut.
struct SnapshotBlocks {
  std::int64_t size = 1;  ///< longest side of a block
  std::vector<checkpoint::SavedSlot> slots;
  std::vector<std::uint32_t> owners;  ///< rank of each block
};

struct Snapshot::Data {
  /// State of this rank, without contents; of several optimizers the states one after the other,
  /// with `library`, `arithmetic` and `progress` of the first.
  StateDict state;
  /// Empty: there is one, without a name.
  std::vector<checkpoint::SavedOptimizer> optimizers;
  /// Arrays of the state's tensors in host memory: copies, as they lie in the backend's memory, or
  /// the state itself.
  std::vector<StateSource> sources;
  std::vector<std::shared_ptr<SnapshotMemory>> memory;  ///< of copies
  /// Of all blocks of the state's parameters; on rank 0, others leave it empty.
  std::vector<SnapshotBlocks> blocks;
  std::vector<SnapshotTensor> user_tensors;
  std::map<std::string, UserValue> user_values, rank_values;
  bool derived = true;  ///< see StateDictOptions
  std::uint64_t plan_hash = 0;
  int rank = 0, ranks = 1;
};

/// A snapshot has copies, or reads state and user tensors where they lie, if that is host memory:
/// then they must stay as they are for as long as it is used.
enum class Contents : std::uint8_t { copied, borrowed };

/// Memory for the copies of an optimizer's snapshot, which nothing else uses.
using FindMemory = std::function<std::shared_ptr<SnapshotMemory>(const Optimizer&)>;

/// See snapshot(). Copies go into memory that `find` finds, or into new memory.
std::unique_ptr<Snapshot::Data> take_snapshot(const Optimizer& optimizer, const UserState& user,
                                              bool derived, Contents contents,
                                              const FindMemory& find = {});
/// The same of several optimizers, or of one without a name.
Snapshot take_snapshot(const Optimizers& optimizers, const UserState& user, bool derived,
                       Contents contents, const FindMemory& find = {});

/// Throws std::invalid_argument that names the tensor or the value and the field.
void validate_user_state(const UserState& user);

/// Bytes of a valid user tensor.
std::int64_t bytes_of(const UserTensor& tensor);

/// The rank that writes each of the tensors: each goes to the rank that has the fewest bytes so
/// far, the largest first; -1 for those that are per rank.
std::vector<int> assign_writers(const std::vector<UserTensor>& tensors, int ranks);

/// Lines of text that must be equal on all ranks.
std::string request_text(const Snapshot::Data& data);

}  // namespace shampoo
