// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

/// A process, for others on its machine that ask whether it is still there.
struct ProcessIdentity {
  std::uint64_t machine = 0;  ///< hash of the boot and the namespace of process ids; 0: unknown
  std::int64_t id = 0;
  std::uint64_t start = 0;  ///< ticks from the boot to its start

  bool operator==(const ProcessIdentity&) const = default;
};

template <typename Visitor>
void for_each_field(Visitor&& visit, ProcessIdentity& identity) {
  visit("machine", identity.machine);
  visit("id", identity.id);
  visit("start", identity.start);
}

ProcessIdentity this_process();

/// True if the process has ended; false if it has not, or cannot be seen from here.
bool has_ended(const ProcessIdentity& identity);

}  // namespace shampoo
