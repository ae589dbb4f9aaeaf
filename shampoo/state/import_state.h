// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shampoo/state/match_parameters.h"
#include "shampoo/state/reshard.h"
#include "shampoo/update/engine.h"

namespace shampoo {

/// A state dict on its way into the blocks that this rank owns: everything that can fail is done,
/// in host memory, before replace() writes the first byte.
class StateLoad {
 public:
  /// Changes nothing. `dict` and `training` must outlive it. Throws std::invalid_argument.
  StateLoad(Backend& backend, Engine& engine, const StateDict& dict, const LoadOptions& options);

  /// What must be equal on all ranks, as lines.
  std::string lines() const;
  /// By group: those that the load changes. The caller sets them before replace().
  const std::map<int, Rates>& rates() const { return match_.rates; }
  LoadReport& report() { return report_; }

  /// Waits.
  void replace(Statistics& statistics);

 private:
  using Key = std::pair<std::string_view, std::string_view>;  ///< parameter, slot

  /// New elements of one slot.
  struct Upload {
    void* to;  ///< [backend]
    std::span<const std::byte> bytes;
  };
  /// A slot with its new numbers, as the state dict holds them; null: its initial value.
  struct SlotNumbers {
    SlotStorage storage;
    Slot::Initial initial;
    const std::byte* packed = nullptr;
  };
  /// New contents of an array, with all slots that share it.
  struct ArrayUpload {
    void* to;  ///< [backend]
    std::vector<SlotNumbers> slots = {};
  };
  struct LoadedBlock {
    GroupStep* group;
    std::size_t block;
    int failures;
    std::int64_t phase;
    bool recompute;
  };
  /// Where a block stands while it is examined.
  struct Place {
    GroupStep& group;
    std::size_t block;
    const RegisteredParameter& registered;
    const grouping::Box& box;
    const ParameterState& saved;
  };

  void index();
  void examine(const StateTensor& tensor);
  void add_block(const Place& place);
  void add_elements(const Place& place, const Slot& slot);
  /// The slots that share the array of `slots[first]`. Returns whether a derived one must be
  /// recomputed.
  bool add_array(const Place& place, std::span<const Slot> slots, std::size_t first);
  /// What the state dict has of a slot.
  std::span<const StateTensor* const> saved(const Place& place, const Slot& slot) const;
  const StateTensor* find_whole(const Place& place, const Slot& slot) const;
  bool is_cut_differently(const RegisteredParameter& registered, const StateTensor& tensor) const;
  std::span<const std::byte> bytes_of(const StateTensor& tensor, Type type);
  void upload_arrays();
  void require_complete() const;

  Backend& backend_;
  Engine& engine_;
  const StateDict& dict_;
  LoadOptions options_;
  LoadReport report_;
  Match match_;
  std::map<Key, std::vector<const StateTensor*>> tensors_;
  std::map<std::string_view, const RegisteredParameter*> parameters_;  ///< that are loaded
  std::set<const RegisteredParameter*> cut_differently_;
  std::map<const StateTensor*, std::vector<std::byte>> converted_;
  std::deque<std::vector<std::byte>> assembled_;  ///< from parts that are cut differently
  std::vector<Upload> uploads_;
  std::vector<ArrayUpload> arrays_;
  std::vector<std::byte> array_;  ///< as large as the largest
  std::vector<LoadedBlock> blocks_;
};

}  // namespace shampoo
