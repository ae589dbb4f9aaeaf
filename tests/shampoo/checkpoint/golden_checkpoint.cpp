// SPDX-License-Identifier: Apache-2.0
// Writes DIRECTORY/step-8, the golden checkpoint of the present format:
//   golden_checkpoint DIRECTORY
#include "tests/shampoo/checkpoint/golden_checkpoint.h"

#include <cstdio>

int main(int argc, char** argv) {
  using namespace shampoo;
  using namespace shampoo::test;
  if (argc != 2) return 2;
  run_ranks(golden_ranks, [&](Communicator& communicator) {
    Job<float> job(communicator, golden_trainee(), {.ranks = golden_ranks});
    job.train(0, 1);
    job.optimizer->load_state_dict(golden_state(job.optimizer->full_state_dict()));
    GoldenUserState user(communicator.rank());
    const auto folder = save(*job.optimizer, argv[1], user.of_rank(communicator.rank()));
    if (communicator.rank() == 0) std::printf("%s\n", folder.c_str());
  });
  return 0;
}
