// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/normalise_arguments.h"

#include <algorithm>
#include <string_view>

#include "distributor/launcher/flags.h"
#include "distributor/launcher/launch_options.h"

namespace shampoo::launcher {
namespace {

/// As argparse: a value, however it begins.
bool is_negative_number(std::string_view text) {
  if (text.size() < 2 || text.front() != '-') return false;
  text.remove_prefix(1);
  return text.find_first_not_of("0123456789.") == std::string_view::npos &&
         std::ranges::count(text, '.') <= 1 && text != ".";
}

bool looks_like_flag(std::string_view text) {
  return text.size() > 1 && text.front() == '-' && !is_negative_number(text) &&
         text.find(' ') >= text.find('=');
}

/// By its whole name or a beginning that no other flag has.
const Flag& flag_named(std::string_view written) {
  std::string name(written.substr(2));
  std::ranges::replace(name, '_', '-');
  const Flag* found = nullptr;
  std::string candidates;
  for (const Flag& flag : all_flags()) {
    if (flag.name == name) return flag;
    if (!flag.name.starts_with(name)) continue;
    candidates += (found == nullptr ? "--" : ", --") + std::string(flag.name);
    found = &flag;
  }
  if (found == nullptr) {
    throw UsageError("no such flag: " + std::string(written) + "; see --help");
  }
  if (candidates.find(',') != std::string::npos) {
    throw UsageError("ambiguous flag: " + std::string(written) + " could be " + candidates);
  }
  return *found;
}

const Flag& flag_lettered(char letter, const std::string& written) {
  const auto found = std::ranges::find(all_flags(), letter, &Flag::letter);
  if (found == all_flags().end()) {
    throw UsageError("no such flag: " + written + "; see --help");
  }
  return *found;
}

class Normaliser {
 public:
  explicit Normaliser(std::span<const std::string> left) : left_(left) {}

  NormalArguments run() {
    while (!left_.empty()) {
      const std::string& argument = left_.front();
      if (argument == "--") {
        left_ = left_.subspan(1);
        break;
      }
      if (!looks_like_flag(argument)) break;
      left_ = left_.subspan(1);
      if (argument.starts_with("--")) {
        take_long(argument);
      } else {
        take_short(argument);
      }
    }
    if (!left_.empty()) {
      result_.program = left_.front();
      result_.arguments.assign(left_.begin() + 1, left_.end());
    }
    return std::move(result_);
  }

 private:
  void take_long(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    const Flag& flag = flag_named(std::string_view(argument).substr(0, equals));
    const bool attached = equals != std::string::npos;
    if (flag.kind != FlagKind::value && attached) {
      throw UsageError("--" + std::string(flag.name) + " takes no value: " + argument);
    }
    result_.flags.push_back("--" + std::string(flag.name));
    if (flag.kind != FlagKind::value) return;
    result_.flags.push_back(attached ? argument.substr(equals + 1) : next_value(flag));
  }

  void take_short(const std::string& argument) {
    for (std::size_t at = 1; at < argument.size(); ++at) {
      const Flag& flag = flag_lettered(argument[at], argument);
      result_.flags.push_back("--" + std::string(flag.name));
      if (flag.kind != FlagKind::value) continue;
      const std::size_t begin = at + 1 + (argument.compare(at + 1, 1, "=") == 0);
      const bool attached = at + 1 < argument.size();
      result_.flags.push_back(attached ? argument.substr(begin) : next_value(flag));
      return;
    }
  }

  std::string next_value(const Flag& flag) {
    if (left_.empty() || left_.front() == "--" || looks_like_flag(left_.front())) {
      throw UsageError("--" + std::string(flag.name) +
                       " wants a value: " + std::string(flag.value_name));
    }
    std::string value = left_.front();
    left_ = left_.subspan(1);
    return value;
  }

  std::span<const std::string> left_;
  NormalArguments result_;
};

}  // namespace

NormalArguments normalise_arguments(std::span<const std::string> arguments) {
  return Normaliser(arguments).run();
}

}  // namespace shampoo::launcher
