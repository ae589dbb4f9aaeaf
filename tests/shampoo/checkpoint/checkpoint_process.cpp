// SPDX-License-Identifier: Apache-2.0
// One rank of a job: saves at once and with a thread, goes on from both, and ends with 0 if that
// gives the bits of a run that was not disturbed, on one rank.
//   checkpoint_process ROOT
#include <cstdio>

#include "distributor/rendezvous/join.h"
#include "shampoo/checkpoint.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

bool goes_on(Communicator& ranks, const std::filesystem::path& root,
             const End<float>& undisturbed) {
  Job<float> job(ranks, everything(), {.groups = 2, .reversed = true});
  UserState user = user_state_of(job);
  load(*job.optimizer, root, user);
  job.train(steps_before, steps_before + steps_after);
  return end_of(job) == undisturbed;
}

bool saves_and_goes_on(Communicator& ranks, const std::filesystem::path& root) {
  const Trainee trainee = everything();
  if (ranks.rank() == 0) std::filesystem::remove_all(root);
  ranks.barrier().wait();
  const End<float> undisturbed = train_first<float>(trainee, {}, steps_before + steps_after);
  Job<float> job(ranks, trainee, {});
  job.train(0, steps_before);
  save(*job.optimizer, root / "waiting", user_state_of(job));
  AsyncCheckpointer checkpointer(*job.optimizer);
  checkpointer.start(root / "threaded", user_state_of(job));
  for (int step = steps_before; step < steps_before + steps_after; ++step) {
    job.train(step, step + 1);
    checkpointer.poll();
  }
  checkpointer.wait();
  return end_of(job) == undisturbed && goes_on(ranks, root / "waiting", undisturbed) &&
         goes_on(ranks, root / "threaded", undisturbed);
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  try {
    const auto backend = shampoo::cpu_backend({.threads = 1});
    const auto ranks = shampoo::join(*backend);
    if (argc != 2 || ranks->size() < 2) return 2;
    const bool good = shampoo::test::saves_and_goes_on(*ranks, argv[1]);
    if (ranks->rank() == 0)
      std::printf("%s: %s\n", ranks->description().c_str(), good ? "the same bits" : "other bits");
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
