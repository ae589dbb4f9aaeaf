// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/checkpoint.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {

/// The values of a job's parameters, in addition to the state.
template <typename Scalar>
UserState user_state_of(Job<Scalar>& job) {
  // The same on all ranks, and in another order for another arrangement.
  return {.tensors = value_tensors(*job.optimizer)};
}

template <typename Scalar>
End<Scalar> end_of(Job<Scalar>& job) {
  return {job.optimizer->full_state_dict(), job.values()};
}

/// Trains from the start and saves.
template <typename Scalar>
std::filesystem::path save_first(const std::filesystem::path& root, const Trainee& trainee,
                                 const Arrangement& arrangement, const SaveOptions& options = {}) {
  std::filesystem::path folder;
  run_ranks(arrangement.ranks, [&](Communicator& communicator) {
    Job<Scalar> job(communicator, trainee, arrangement);
    job.train(0, steps_before);
    const auto made = save(*job.optimizer, root, user_state_of(job), options);
    if (communicator.rank() == 0) folder = made;
  });
  return folder;
}

/// Goes on from a checkpoint.
template <typename Scalar>
End<Scalar> load_on(const std::filesystem::path& path, const Trainee& trainee,
                    const Arrangement& arrangement, int steps = steps_after,
                    const CheckpointOptions& options = {}) {
  End<Scalar> end;
  run_ranks(arrangement.ranks, [&](Communicator& communicator) {
    Job<Scalar> job(communicator, trainee, arrangement);
    UserState user = user_state_of(job);
    load(*job.optimizer, path, user, options);
    job.train(steps_before, steps_before + steps);
    End<Scalar> own = end_of(job);
    if (communicator.rank() == 0) end = std::move(own);
  });
  return end;
}

}  // namespace shampoo::test
