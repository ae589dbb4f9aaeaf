// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "distributor/communicator.h"

namespace shampoo {

/// A CollectiveCall in the form that ranks send each other, to find out whether they are in the
/// same one.
struct CallRecord {
  std::uint64_t ticket = 0;  ///< 0: in no collective
  std::uint64_t signature = 0;
  std::int32_t rank = 0;
  std::array<char, 108> text{};  ///< CollectiveCall::text(), cut to fit; ends with 0

  CallRecord() = default;
  CallRecord(int from_rank, const CollectiveCall& call);

  bool matches(const CallRecord& other) const {
    return ticket == other.ticket && signature == other.signature;
  }
  std::string bytes() const { return {reinterpret_cast<const char*>(this), sizeof(*this)}; }
  /// Empty unless these are the bytes of a record.
  static std::optional<CallRecord> of(const std::string& bytes);
};
static_assert(sizeof(CallRecord) == 128 && std::is_trivially_copyable_v<CallRecord>);

/// "the ranks are not in the same call: rank 1 is in all_gather of 96 bytes (collective 19, step
/// 6), ranks 0 and 2 are in ..."; empty if all records match.
std::string describe_mismatch(std::span<const CallRecord> records);

/// "rank 0 sends 64 bytes to rank 1, which expects 48", of an all_to_all.
std::string describe_counts(int from, std::int64_t sent, int to, std::int64_t expected);

}  // namespace shampoo
