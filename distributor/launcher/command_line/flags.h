// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace shampoo::launcher {

/// A flag as the help shows it.
struct FlagText {
  std::string names;  ///< "--log-dir" or "-t,--tee", with dashes inside
  std::string value_name;
  std::string standard;  ///< default, for the help only
  std::string help;
  bool has_variable = true;  ///< PET_<NAME> stands for a missing flag
};

using ReadValue = std::function<void(const std::string&)>;

/// Calls read(text). Throws UsageError with the name of `source`, a flag or a variable, where
/// `read` throws InvalidValue or Unsupported.
void read_value(const std::string& source, const std::string& text, const ReadValue& read);

/// CLI11's application for torchrun's style of flags: each in the spellings --a-b and --a_b, with a
/// PET_ variable, the last of several values counts, and the first word that is no flag starts the
/// program with its arguments.
class Flags {
 public:
  Flags();

  /// Heading of the flags that follow.
  void group(const std::string& heading) { app_.option_defaults()->group(heading); }
  /// Without a value; true where it is given.
  void toggle(const FlagText& text, bool& target);
  /// parse() calls `read` with the value where there is one, as read_value() does.
  void value(const FlagText& text, const ReadValue& read);
  /// Sets `target`, which is borrowed, to the converted value.
  template <class Value, class Convert = std::identity>
  void assign(const FlagText& text, Value& target, Convert convert = {}) {
    value(text, [&target, convert](const std::string& given) { target = convert(given); });
  }
  /// A flag of torchrun's that has no effect. Values that are not accepted are Unsupported;
  /// `text.help` is the reason.
  void unused(FlagText text, const std::vector<std::string>& accepted = {});

  /// Reads all values. False where help or version was asked for, which then went to `out`. Throws
  /// UsageError.
  bool parse(int argc, const char* const* argv, std::ostream& out);
  /// True if the command line or a variable gave "--name".
  bool given(const std::string& name) const { return app_.count(name) > 0; }
  /// After parse(): the program and its arguments.
  const std::vector<std::string>& command() const { return command_; }

 private:
  void describe(CLI::Option* option, const FlagText& text);
  std::string source(const std::string& name) const;
  void read_command(std::span<const char* const> words);

  CLI::App app_;
  std::vector<std::string> command_;
};

}  // namespace shampoo::launcher
