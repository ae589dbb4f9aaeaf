// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/scratch_memory.h"
#include "kernels/staged_array.h"
#include "shampoo/recipe.h"
#include "shampoo/update/block_chunks.h"
#include "shampoo/update/group_state.h"
#include "shampoo/update/slots.h"
#include "shampoo/update/step_context.h"
#include "shampoo/validation/checks.h"

/// The seam between the step and its kinds. A kind is its options in preconditioners.h and one file
/// pair with the overloads that preconditioner.cpp visits: check, has_refresh, rates, slots, work,
/// make, and where the defaults do not fit, acts_before_refresh, acts_on,
/// is_elementwise, is_blockwise, filters_gradient and block_fault.
namespace shampoo {

/// Use of a diagonal kind; decides which rates it reads and the names of its slots.
enum class Role : std::uint8_t { preconditioner, grafting };

/// Arguments from which a kind is made. All of them outlive it.
struct PreconditionerContext {
  kernels::Backend& backend;
  const Recipe& recipe;
  std::span<const std::vector<std::int64_t>> extents;  ///< extents of each block
  /// Per block: those of one turn are refreshed together while their parameters have a gradient in
  /// every step.
  std::span<const std::int64_t> turns;
  std::span<const kernels::Stack> stacks;  ///< of all chunks, one after the other
  std::span<const Chunk> chunks;
  StoredDirection stored;
  const GroupState& state;
  kernels::ScratchMemory& scratch;  ///< of refreshes, and of P once they are done
  kernels::StagedArrays& columns;   ///< arrays that prepare() writes and kernels read
};

/// One kind at work on the blocks of one virtual group that this rank owns.
///
/// prepare() runs on the host; accumulate(), refresh() and apply() queue work on the backend, in
/// the order of the step, and only refresh() may wait, where waiting_solver() names a solver.
class GroupPreconditioner {
 public:
  virtual ~GroupPreconditioner() = default;

  /// Fills in the coefficients of one block that the kind reads.
  virtual void set_coefficients(const Rates& rates, std::int64_t step,
                                kernels::Coefficients& coefficients) const = 0;
  /// Host work of the next step, after coefficients were set.
  virtual void prepare(std::span<const BlockStep> blocks) = 0;

  /// Statistics <- G.
  virtual void accumulate(StepContext& step) = 0;
  /// Derived slots <- statistics, for blocks that are due.
  virtual void refresh(StepContext& step) = 0;
  /// P <- F, for blocks of the chunk that are preconditioned.
  virtual void apply(ChunkContext& chunk) = 0;
  /// In place of apply() where StoredDirection::block: filters, P <- F, and updates, once the chunk
  /// has all of it. Kinds that are blockwise have it; of others throws std::logic_error.
  virtual void apply_and_update(ChunkContext& chunk);

  /// True if the prepared step refreshes a block.
  virtual bool refreshes() const = 0;
  /// True if it needs more roots of one size than any turn has.
  virtual bool exceeds_usual() const { return false; }
  /// Name of the solver if refresh() waits for the backend; empty where it only queues.
  virtual std::string_view waiting_solver() const = 0;
  /// Counts the outcomes of a refresh that was queued, once the step is known to have run.
  virtual void collect(Statistics& statistics) = 0;
  /// Recomputes the derived slots of these blocks, which `blocks` marks as due, now. Waits.
  virtual void recompute(std::span<const BlockStep> blocks, Statistics& statistics) = 0;

  /// Consecutive refreshes of the block that failed.
  virtual int failures(std::size_t block) const = 0;
  virtual void set_failures(std::size_t block, int failures) = 0;
  /// The first block of the last refresh with more failures than the recipe tolerates, or -1.
  virtual std::int64_t exhausted_block() const = 0;

  virtual std::int64_t workspace_bytes() const = 0;
};

/// Throws std::invalid_argument for options out of range.
void check_preconditioner(const Recipe& recipe, const Checks& checks);
void check_grafting(const Recipe& recipe, const Checks& checks);

/// The rates that the recipe's preconditioner and grafting read, by name.
std::span<const RateUse> preconditioner_rates(const Recipe& recipe);
std::span<const RateUse> grafting_rates(const Recipe& recipe);

std::vector<Slot> preconditioner_slots(const Recipe& recipe, std::span<const std::int64_t> extent);
std::vector<Slot> grafting_slots(const Recipe& recipe);

/// Small products run slower: one with a matrix of side n costs as much as one of side n + 64 would
/// at full speed.
inline constexpr std::int64_t product_overhead = 64;

/// Cost of a block: floating-point operations at the speed of large products, and what else takes
/// time in that unit, as measured (tests/bench/README.md, "Placement").
struct PreconditionerWork {
  // In every step, without the passes over its elements.
  std::int64_t factors = 0;    ///< of their accumulation
  std::int64_t direction = 0;  ///< of the direction, from roots or bases
  std::int64_t refresh = 0;    ///< of a refresh

  PreconditionerWork& operator+=(const PreconditionerWork& other) {
    factors += other.factors;
    direction += other.direction;
    refresh += other.refresh;
    return *this;
  }
};
PreconditionerWork preconditioner_work(const Recipe& recipe, std::span<const std::int64_t> extent);

/// Why the preconditioner cannot have a block of this extent; empty: it can. Kinds that take every
/// block need not have the overload.
std::string block_fault(const Recipe& recipe, std::span<const std::int64_t> extent);

/// True if blocks have something to refresh.
bool has_refresh(const Recipe& recipe);
/// True if blocks are preconditioned before Refresh::first, too. None is where there is a grafting.
bool acts_before_refresh(const Recipe& recipe);
/// A kind that has a refresh and acts before the first, without grafting, overloads this.
template <typename Kind>
bool acts_before_refresh(const Kind& kind, const Recipe& recipe) {
  return !has_refresh(kind, recipe);
}

/// True if blocks of this extent are preconditioned; the direction of others is that of the
/// grafting, or F without one.
bool acts_on(const Recipe& recipe, std::span<const std::int64_t> extent);
/// A kind that leaves some blocks alone overloads this.
template <typename Kind>
bool acts_on(const Kind&, std::span<const std::int64_t>) {
  return true;
}

/// True if the preconditioner computes F itself, and keeps M: no pass over the gradients does.
bool filters_gradient(const Recipe& recipe);
/// A kind that filters overloads this.
template <typename Kind>
bool filters_gradient(const Kind&, const Recipe&) {
  return false;
}

/// none for elementwise kinds without grafting; block for blockwise ones on a backend with passes
/// over blocks; otherwise all.
StoredDirection stored_direction(const Recipe& recipe, const kernels::Backend& backend);
/// A kind whose direction accumulate() arranges in the pass over the gradients overloads this.
template <typename Kind>
bool is_elementwise(const Kind&) {
  return false;
}
/// A kind that has apply_and_update() overloads this.
template <typename Kind>
bool is_blockwise(const Kind&, const Recipe&) {
  return false;
}

std::unique_ptr<GroupPreconditioner> make_preconditioner(const PreconditionerContext& context);
/// Null without grafting.
std::unique_ptr<GroupPreconditioner> make_grafting(const PreconditionerContext& context);

}  // namespace shampoo
