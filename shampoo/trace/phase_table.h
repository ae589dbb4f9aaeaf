// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>

#include "shampoo/trace/step_clock.h"
#include "shampoo/update/group_step.h"

namespace shampoo {

/// The phases of a step on this rank as a table for a person: shares of the time as predicted, with
/// refreshes spread over their interval, and what was measured, if anything was. Predicted is what
/// a rank computes for its blocks, at the costs of preconditioner_work() and passes_work(), by
/// which blocks are placed; the measured share is one of the same phases. Lines end with '\n'.
/// `groups`: of every virtual group.
std::string phase_table(std::span<const std::unique_ptr<GroupStep>> groups, const StepClock& clock);

}  // namespace shampoo
