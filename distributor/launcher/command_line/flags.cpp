// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/command_line/flags.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/command_line/parse_values.h"

namespace shampoo::launcher {
namespace {

constexpr const char* description =
    "Starts the workers of a job on this node, watches them, and restarts all of them when one "
    "fails.\nTakes the command line of torchrun. PROGRAM is an executable, or a Python program "
    "where its\nname ends in .py. In ARGUMENTS, ${local_rank} becomes the worker's local rank, and "
    "$$ becomes $.";
constexpr const char* footer =
    "Flags stand before PROGRAM and may be written with _ for -. A variable such as\n"
    "PET_NPROC_PER_NODE stands for a flag that is not given.";

/// "--log-dir" of "-l,--log-dir".
std::string long_name(const FlagText& text) { return text.names.substr(text.names.find("--")); }

std::string with_underscores(const std::string& long_name) {
  std::string name = long_name.substr(2);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string spellings(const FlagText& text) {
  const std::string name = with_underscores(long_name(text));
  return text.names.ends_with(name) ? text.names : text.names + ",--" + name;
}

/// One spelling of each flag, its default, and no variables, whose rule the footer gives.
class Layout : public CLI::Formatter {
 public:
  Layout() { column_width(32); }
  std::string make_option_name(const CLI::Option* option, bool) const override {
    const std::string name = "--" + option->get_lnames().front();
    return option->get_snames().empty() ? name : "-" + option->get_snames().front() + ", " + name;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string standard = option->get_default_str();
    if (option->get_type_name().empty()) return "";
    return " " + option->get_type_name() + (standard.empty() ? "" : " [" + standard + "]");
  }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: shampoorun [FLAGS] PROGRAM [ARGUMENTS]\n";
  }
};

}  // namespace

void read_value(const std::string& source, const std::string& text, const ReadValue& read) {
  try {
    read(text);
  } catch (const Unsupported& error) {
    throw UsageError(source + "=" + text + " is not supported: " + error.what());
  } catch (const InvalidValue& error) {
    throw UsageError(source + " must be " + error.what() + ", not '" + text + "'");
  }
}

Flags::Flags() : app_(description, "shampoorun") {
  app_.formatter(std::make_shared<Layout>());
  app_.footer(footer);
  app_.prefix_command();
  app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app_.set_help_flag("-h,--help", "Print this and exit.")->group("Help");
  app_.set_version_flag("--version", "shampoorun " SHAMPOO_VERSION, "Print the version and exit.")
      ->group("Help");
}

void Flags::value(const FlagText& text, const ReadValue& read) {
  const bool is_short = !text.names.starts_with("--");
  const CLI::callback_t read_last = [this, name = long_name(text), is_short,
                                     read](const auto& values) {
    std::string given = values.back();
    if (is_short && given.starts_with('=')) given.erase(0, 1);  // -t=1: argparse reads 1
    read_value(source(name), given, read);
    return true;
  };
  describe(app_.add_option(spellings(text), read_last, text.help), text);
}

void Flags::toggle(const FlagText& text, bool& target) {
  CLI::Option* const flag = app_.add_flag(spellings(text), target, text.help);
  const auto require_bool = [](const std::string& given) {
    if (!CLI::TypeValidator<bool>()(given).empty()) throw InvalidValue("0 or 1");
  };
  flag->check([this, name = long_name(text), require_bool](const std::string& given) {
    read_value(source(name), given, require_bool);
    return std::string();
  });
  describe(flag, text);
}

void Flags::unused(FlagText text, const std::vector<std::string>& accepted) {
  const std::string advice = text.help;
  text.help = (accepted.empty() ? "Refused: " : "Others are refused: ") + advice + ".";
  value(text, [advice, accepted](const std::string& given) {
    if (!given.empty() && std::ranges::find(accepted, given) == accepted.end())
      throw Unsupported(advice);
  });
}

void Flags::describe(CLI::Option* option, const FlagText& text) {
  option->type_name(text.value_name)->default_str(text.standard);
  std::string variable = "PET_" + with_underscores(long_name(text));
  std::ranges::transform(variable, variable.begin(),
                         [](unsigned char c) { return std::toupper(c); });
  if (text.has_variable) option->envname(variable);
}

/// CLI11 notes the order of what was on the command line only.
std::string Flags::source(const std::string& name) const {
  const auto& parsed = app_.parse_order();
  const CLI::Option* option = app_.get_option(name);
  return std::ranges::find(parsed, option) != parsed.end() ? name : option->get_envname();
}

bool Flags::parse(int argc, const char* const* argv, std::ostream& out) {
  const std::span words(argv + std::min(argc, 1), argv + argc);
  try {
    app_.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    out << app_.help();
    return false;
  } catch (const CLI::CallForVersion& version) {
    out << version.what() << '\n';
    return false;
  } catch (const CLI::ArgumentMismatch&) {  // others take the next word
    throw UsageError(std::string(words.back()) + " lacks a value");
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  read_command(words);
  return true;
}

void Flags::read_command(std::span<const char* const> words) {
  command_ = app_.remaining();
  // CLI11 takes the next word for a value that is missing after "=".
  for (const std::string word : words.first(words.size() - command_.size()))
    if (word.starts_with("--") && word.ends_with('=')) throw UsageError(word + " lacks a value");
  if (!command_.empty() && command_.front() == "--")
    command_.erase(command_.begin());
  else if (!command_.empty() && command_.front().starts_with('-'))
    throw UsageError("there is no flag " + command_.front() + "; see --help");
  if (command_.empty() || command_.front().empty())
    throw UsageError("the program is missing: shampoorun [FLAGS] PROGRAM [ARGUMENTS]");
}

}  // namespace shampoo::launcher
