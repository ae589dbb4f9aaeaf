// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/rendezvous/variables.h"

namespace shampoo::joining {

/// Reads variables of one launcher and collects all that is wrong with them. An empty variable is
/// an absent one.
class Evidence {
 public:
  Evidence(const Variables& variables, std::string_view launcher)
      : variables_(variables), launcher_(launcher) {}

  bool has(std::string_view name) const { return !text_or(name, {}).empty(); }
  std::string text_or(std::string_view name, std::string_view otherwise) const;
  /// The first of `names` that is there.
  std::optional<std::string> text(std::initializer_list<std::string_view> names);
  /// The same, between low and high. A fault is noted; so is absence where it is required.
  std::optional<std::int64_t> number(std::initializer_list<std::string_view> names,
                                     std::int64_t low, std::int64_t high, bool required = true);
  void problem(const std::string& text) { problems_.push_back(text); }

  /// Throws std::invalid_argument if there was a problem: all of them, all variables of launchers
  /// that were found, and what was asked for with its range.
  void check() const;

 private:
  std::string found() const;

  const Variables& variables_;
  std::string_view launcher_;
  std::vector<std::string> problems_, accepted_;
};

}  // namespace shampoo::joining
