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
#include "shampoo/state/state_index.h"
#include "shampoo/update/engine.h"

namespace shampoo {

/// Imports a state dict into the blocks that this rank owns. The constructor does everything that
/// can fail, in host memory, before replace() writes the first byte.
class StateImport {
 public:
  /// Does not modify `engine`. `dict` and `engine` must outlive this object. Throws
  /// std::invalid_argument.
  StateImport(kernels::Backend& backend, Engine& engine, const StateDict& dict,
              const LoadOptions& options);

  /// Lines that must be equal on all ranks.
  std::string lines() const;
  /// Changed rates by group. The caller sets them before replace().
  const std::map<int, GroupRates>& rates() const { return match_.rates; }
  const std::map<int, Rates>& base_rates() const { return match_.base_rates; }
  const LoadReport& report() const { return report_; }
  LoadReport& report() { return report_; }

  /// Writes the state into the blocks. Waits for the backend.
  void replace(Statistics& statistics);

 private:
  /// New elements of one slot.
  struct Upload {
    void* to;  ///< [backend]
    std::span<const std::byte> bytes;
  };
  /// New contents of a slot in the packed order of the state dict; null: the initial value.
  struct SlotNumbers {
    SlotStorage storage;
    Slot::Initial initial;
    const std::byte* packed = nullptr;
  };
  /// New contents of an array and of all slots that share it.
  struct ArrayUpload {
    void* to;  ///< [backend]
    std::vector<SlotNumbers> slots = {};
  };
  struct LoadedBlock {
    GroupStep* group;
    std::size_t block;
    int failures;
    bool recompute;
  };
  /// The block that is being examined.
  struct Place {
    GroupStep& group;
    std::size_t block;
    const RegisteredParameter& registered;
    const grouping::Box& box;
    const ParameterState& saved;
    bool restarts = false;  ///< its matrices and all that is in their coordinates start anew
  };

  void index();
  void examine(const StateTensor& tensor);
  void add_fault(const StateTensor& tensor, const std::string& what);
  void add_block(Place place);
  void add_elements(const Place& place, const Slot& slot);
  /// True if a block that has its first refresh behind it here had not where the state dict was
  /// made: the next one may be an interval away.
  bool lacks_refresh(const Place& place, std::span<const Slot> slots);
  /// True if the block has its first refresh behind it, and acts on what that computes.
  static bool is_refreshed(const Place& place);
  /// Adds the slots that share the array of `slots[first]`. Returns true if a derived slot must be
  /// recomputed.
  bool add_array(const Place& place, std::span<const Slot> slots, std::size_t first);
  const StateTensor* find_whole(const Place& place, const Slot& slot) const;
  bool is_cut_differently(const RegisteredParameter& registered, const StateTensor& tensor) const;
  std::span<const std::byte> bytes_of(const StateTensor& tensor, Type type);
  void upload_arrays();

  kernels::Backend& backend_;
  Engine& engine_;
  const StateDict& dict_;
  LoadOptions options_;
  LoadReport report_;
  LoadFaults faults_;
  StateMatch match_;
  StateIndex tensors_;  ///< of parameters that are loaded
  std::map<std::pair<const ParameterState*, grouping::Box>, const BlockState*> counters_;
  std::map<std::string_view, const RegisteredParameter*> parameters_;  ///< loaded, by name
  std::set<const RegisteredParameter*> cut_differently_;
  std::map<const StateTensor*, std::vector<std::byte>> converted_;
  std::deque<std::vector<std::byte>> assembled_;  ///< resharded elements
  std::vector<Upload> uploads_;
  std::vector<ArrayUpload> arrays_;
  std::vector<std::byte> array_;  ///< staging memory of the largest array
  std::vector<LoadedBlock> blocks_;
};

}  // namespace shampoo
