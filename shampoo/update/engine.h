// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/exchange.h"
#include "grouping/plan.h"
#include "grouping/segments.h"
#include "shampoo/options.h"
#include "shampoo/update/group_step.h"

namespace shampoo {

/// All virtual groups of an optimizer for one sequence of groups: the plan, the tables that follow
/// from it, the state.
class Engine {
 public:
  /// Groups of `before`, if any, come first, and keep owners and state; it is left as it was.
  Engine(Backend& backend, Communicator& communicator, bool merges,
         std::span<const Group* const> added, const Engine* before);

  /// Host work of the next step, up to what the caller writes into header and admission.
  void prepare();
  bool refreshes() const;
  /// Name of the solver of a prepared refresh that waits for the backend; empty: none.
  std::string_view waiting_solver() const;
  /// Whether a prepared refresh only queues.
  bool queues_refresh() const;
  const kernels::StagedArray<SegmentHeader>& header() const { return header_; }
  const kernels::StagedArray<kernels::StepPermit>& admission() const { return admission_; }
  /// Brings everything that a step reads up to date, by one copy where something changed.
  void upload() { columns_.upload(); }

  // The prepared step, in this order. Queued.
  void scan(const StepInputs& inputs, bool refuses, kernels::ScanResult* verdict);
  /// Up to the updates in this rank's segment. Waits where a solver has host steps.
  void compute(StepInputs inputs, Refreshing refreshing, Statistics& statistics);
  Exchange& exchange() { return *exchange_; }
  void apply(StepInputs inputs);

  /// See GroupStep.
  void collect(Statistics& statistics);
  /// Counts the prepared step as taken.
  void count_step();
  /// See GroupStep.
  std::string exhausted_block() const;

  // What ranks compare.
  std::uint64_t rates_fingerprint() const;
  std::uint64_t presence_fingerprint() const;
  std::string plan_text(const OptimizerOptions& options) const;
  std::string rates_text() const;
  std::string presence_text() const;

  // What state dicts are made of, and go into.
  std::span<const RegisteredParameter> parameters() const { return parameters_; }
  std::span<RegisteredParameter> parameters() { return parameters_; }
  std::span<const std::unique_ptr<GroupStep>> virtual_groups() const { return virtual_groups_; }

  /// Name of the parameter in a row; empty for -1.
  std::string_view name(int row) const;
  /// Throws std::invalid_argument for an unknown name, block or slot.
  const RegisteredParameter& find(std::string_view name) const;
  std::vector<std::string> slot_names(std::string_view parameter, int block) const;
  SlotView slot(std::string_view parameter, int block, std::string_view slot) const;

  std::int64_t state_bytes() const;
  std::int64_t workspace_bytes() const;
  /// `workspace_bytes`: of the whole optimizer.
  std::string describe(std::int64_t workspace_bytes, std::uint64_t plan_hash) const;

 private:
  void register_groups(std::span<const Group* const> added);
  void build_tables();
  void build_virtual_groups(const Engine* before);
  /// This rank's blocks of virtual group `v`, in flat order.
  std::vector<OwnedBlock> owned_blocks(int v) const;
  int row(const grouping::Member& member) const;
  std::pair<const GroupStep*, int> locate(std::string_view parameter, int block) const;

  Backend& backend_;
  Communicator& communicator_;
  bool merges_;
  std::vector<RegisteredParameter> parameters_;  ///< rows, in the sequence of groups
  std::vector<const Group*> groups_;
  std::vector<int> first_rows_;  ///< of every group
  grouping::Plan plan_;
  grouping::Segments segments_;

  kernels::StagedArrays columns_;
  kernels::StagedArray<SegmentHeader> header_;  ///< of this rank, in the prepared step
  kernels::StagedArray<kernels::StepPermit> admission_;
  TensorTable tensors_;
  ElementTable scan_table_, apply_table_;
  /// Float64 where any gradient or arithmetic is. Sums are in double either way, as squares of
  /// float32 numbers leave its range; others need not be converted before they are scaled.
  Type scan_type_ = Type::float32;
  kernels::StagedArray<kernels::Mode> apply_modes_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<std::unique_ptr<GroupStep>> virtual_groups_;
  std::vector<std::string> names_;  ///< of virtual groups, for profilers
  kernels::Settled settled_;
};

}  // namespace shampoo
