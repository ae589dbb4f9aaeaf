// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/command_line/parse_values.h"

namespace shampoo::launcher {

/// How a flag is shown in the help.
struct FlagText {
  std::string name;  ///< without dashes in front, with dashes inside
  char letter = 0;   ///< of the short form; 0: none
  std::string value_name;
  std::string standard;  ///< default, for the help only
  std::string help;
  bool has_variable = true;  ///< PET_<NAME> stands for a missing flag
};

/// CLI11's application for torchrun's style of flags: each in the spellings --a-b and --a_b, with a
/// PET_ variable, the last of several values counts, and the first word that is no flag starts the
/// program with its arguments.
class Flags {
 public:
  Flags();

  /// Heading of the flags that follow.
  void group(const std::string& heading) { group_ = heading; }
  /// `read` takes the value, and throws InvalidValue where it does not like it.
  void value(const FlagText& text, std::function<void(const std::string&)> read);
  void toggle(const FlagText& text, bool& target);

  /// Reads all values. False where help or version was asked for, which then went to `out`. Throws
  /// UsageError.
  bool parse(int argc, const char* const* argv, std::ostream& out);
  /// True if the command line or a variable gave it.
  bool given(const std::string& name) const { return app_.get_option("--" + name)->count() > 0; }
  /// After parse(): the program and its arguments.
  const std::vector<std::string>& command() const { return command_; }

 private:
  void add(CLI::Option* option, const FlagText& text);
  std::string source(const std::string& name) const;
  void read_command(std::span<const char* const> words);

  CLI::App app_;
  std::string group_;
  std::vector<std::string> command_;
};

}  // namespace shampoo::launcher
