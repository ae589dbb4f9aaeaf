// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/system/environment.h"

namespace shampoo::rendezvous {

/// Reads variables of one launcher and collects all problems. An empty variable counts as absent.
class LauncherEnvironment {
 public:
  /// Names of variables that mean the same; the first that is present counts. Empty names are
  /// skipped.
  using Names = std::initializer_list<std::string_view>;

  LauncherEnvironment(const Environment& variables, std::string_view launcher)
      : variables_(variables), launcher_(launcher) {}

  bool has(std::string_view name) const { return !value(name).empty(); }
  /// Empty if absent.
  std::string_view value(std::string_view name) const;
  /// Absence is a problem.
  std::string text(Names names);
  /// Anything but a number from low to high is a problem; so is absence of a required one.
  std::optional<std::int64_t> number(Names names, std::int64_t low, std::int64_t high,
                                     bool required = true);
  void add_problem(const std::string& text) { problems_.push_back(text); }

  /// Throws std::invalid_argument if there was a problem: lists all problems, the launchers'
  /// variables that were found, and the names and ranges that are accepted.
  void check() const;

 private:
  std::string found() const;

  const Environment& variables_;
  std::string_view launcher_;
  std::vector<std::string> problems_, accepted_;
};

}  // namespace shampoo::rendezvous
