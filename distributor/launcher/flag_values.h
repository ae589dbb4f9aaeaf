// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/launcher/environment.h"

namespace shampoo::launcher {

/// The value of a flag, and where it comes from: "--nnodes" or "PET_NNODES", for messages.
struct FlagValue {
  std::string text;
  std::string source;
};

/// Values of all flags: from the command line, otherwise from PET_ variables.
class FlagValues {
 public:
  /// `flags` is NormalArguments::flags. Throws UsageError.
  FlagValues(const std::vector<std::string>& flags, const Environment& environment);

  /// Whether command line or variable set the flag.
  bool given(std::string_view name) const { return values_.contains(name); }
  /// The flag's default where it is not given.
  FlagValue value(std::string_view name) const;
  std::string text(std::string_view name) const { return value(name).text; }
  /// Throws UsageError for a variable that is not a whole number.
  bool on(std::string_view name) const;

 private:
  std::map<std::string, FlagValue, std::less<>> values_;
};

/// The help, in groups, with the default of every flag.
std::string help_text();

}  // namespace shampoo::launcher
