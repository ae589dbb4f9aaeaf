// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "shampoo/rates.h"

namespace shampoo {

/// A hash of words that costs a few cycles each, for what ranks compare at every step.
class Fingerprint {
 public:
  void add(std::uint64_t word) {
    // The finaliser of a congruential generator: every bit of the word reaches every bit.
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15u;
    value_ ^= value_ >> 32;
  }
  void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  void add(const std::optional<double>& number) {
    add(static_cast<std::uint64_t>(number.has_value()));
    add(number.value_or(0));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0x243f6a8885a308d3u;
};

}  // namespace shampoo
