// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/flag_values.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>

#include "distributor/launcher/flags.h"
#include "distributor/launcher/launch_options.h"
#include "distributor/launcher/read_values.h"

namespace shampoo::launcher {
namespace {

constexpr std::size_t kNameWidth = 28;
constexpr std::size_t kLineWidth = 96;

std::string wrapped(const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  std::string lines, word;
  std::size_t column = indent;
  while (words >> word) {
    if (column > indent && column + 1 + word.size() > kLineWidth) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) lines += " ";
    column += word.size() + (column > indent);
    lines += word;
  }
  return lines;
}

/// Long lines folded, and what a flag is without being given.
class Layout : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool) const override {
    std::string name = "  " + option->get_name(false, true);
    if (const std::size_t comma = name.find(','); comma != std::string::npos) {
      name.insert(comma + 1, " ");
    }
    if (!option->get_type_name().empty()) name += " " + option->get_type_name();
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
    const bool fits = name.size() < kNameWidth;
    name += fits ? std::string(kNameWidth - name.size(), ' ') : "\n" + std::string(kNameWidth, ' ');
    return name + wrapped(text, kNameWidth) + "\n";
  }

  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: shampoorun [FLAGS] PROGRAM [ARGUMENTS]\n";
  }
};

/// Knows all flags. Their names may be written in full only: normalise_arguments() did the rest.
void add_flags(CLI::App& app) {
  app.set_help_flag();
  app.formatter(std::make_shared<Layout>());
  for (const Flag& flag : all_flags()) {
    const std::string letter = flag.letter == 0 ? "" : std::string("-") + flag.letter + ",";
    const std::string names = letter + "--" + std::string(flag.name);
    const std::string meaning(flag.meaning);
    CLI::Option* option = nullptr;
    if (flag.kind == FlagKind::value) {
      option = app.add_option(names, meaning);
      option->type_name(std::string(flag.value_name))->type_size(1)->allow_extra_args(false);
      option->default_str(std::string(flag.standard));
    } else {
      option = app.add_flag(names, meaning)->type_name("");
    }
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->group(std::string(flag.group));
  }
}

}  // namespace

FlagValues::FlagValues(const std::vector<std::string>& flags, const Environment& environment) {
  CLI::App app;
  add_flags(app);
  try {
    app.parse(std::vector<std::string>(flags.rbegin(), flags.rend()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  for (const Flag& flag : all_flags()) {
    const std::string name(flag.name);
    if (const CLI::Option* option = app.get_option("--" + name); option->count() > 0) {
      const bool with_value = flag.kind == FlagKind::value;
      values_[name] = {with_value ? option->results().back() : "1", "--" + name};
    } else if (flag.has_variable) {
      const std::string variable = variable_of(flag);
      if (const auto found = environment.find(variable); found != environment.end()) {
        values_[name] = {found->second, variable};
      }
    }
  }
}

FlagValue FlagValues::value(std::string_view name) const {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const auto flag = std::ranges::find(all_flags(), name, &Flag::name);
  return {std::string(flag->standard), "--" + std::string(name)};
}

bool FlagValues::on(std::string_view name) const {
  return given(name) && whole_number(value(name), -1'000'000, 1'000'000) != 0;
}

std::string help_text() {
  CLI::App app(
      "Starts the workers of a job on this node, watches them, and starts them again when one "
      "fails.\nTakes the command line of torchrun. PROGRAM is an executable, or a Python program "
      "where its\nname ends in .py; ${local_rank} in ARGUMENTS becomes the worker's local rank.");
  add_flags(app);
  app.footer(
      "Names may be shortened as long as they stay unique, and written with _ for -. Variables "
      "such\nas PET_NPROC_PER_NODE stand for flags that are not given; flags stand before "
      "PROGRAM.");
  return app.help();
}

}  // namespace shampoo::launcher
