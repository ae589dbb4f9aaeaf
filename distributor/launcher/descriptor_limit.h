// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace shampoo::launcher {

/// How many descriptors a process may have.
using DescriptorLimit = rlimit;

/// Lets this process have as many as the system allows: each worker of a job is a connection to its
/// host. Returns the limit as it was, for the workers, whose programs may rely on it.
inline DescriptorLimit raise_descriptor_limit() {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit raised{before.rlim_max, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &raised);
  return before;
}

}  // namespace shampoo::launcher
