// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "guest.h"

/// A rank of a trainer that has torch beside this library, or only one of them.
int main() {
  try {
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
