// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "guest.h"

/// A rank of a trainer that has torch beside this library, or only one of them.
///   program [FOLDER STEPS [killed]]
int main(int count, char** words) {
  try {
    if (count > 2) {
      guest::train_through_faults(words[1], std::atoi(words[2]), count > 3);
      return 0;
    }
#ifdef WITH_TORCH
    guest::check_products("before");
#endif
    guest::train();
#ifdef WITH_TORCH
    guest::check_process_group();
    guest::check_products("after");
#endif
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
