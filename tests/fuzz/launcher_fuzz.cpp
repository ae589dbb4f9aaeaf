// SPDX-License-Identifier: Apache-2.0
// The command line of shampoorun, a word per line. Lines NAME=value before the first empty one are
// variables.
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/worker_setup.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/words.h"

namespace {

using namespace shampoo::launcher;
using shampoo::Environment;
using shampoo::fuzz::require;

void examine(const LaunchOptions& options) {
  require(!options.program.empty());
  require(options.nodes >= 1 && options.workers >= 1 && options.max_restarts >= 0);
  require(options.monitor_interval.count() > 0 && options.shutdown_timeout.count() >= 0);
  for (const std::string& argument : options.arguments) with_local_rank(argument, 3);
  fill_template(options.line_prefix.value_or("$rank"), {{"rank", "3"}, {"role_name", "$rank"}});
}

/// Sets the PET_ variables among `environment` while it lives.
class Variables {
 public:
  explicit Variables(const Environment& environment) {
    for (const auto& [name, value] : environment)
      if (name.starts_with("PET_") && setenv(name.c_str(), value.c_str(), 1) == 0)
        names_.push_back(name);
  }
  ~Variables() {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::string> names_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> words = shampoo::fuzz::words_of(data, size);
  Environment environment;
  if (const auto end = std::find(words.begin(), words.end(), ""); end != words.end()) {
    for (auto word = words.begin(); word != end; ++word)
      if (const std::size_t equals = word->find('='); equals != std::string::npos)
        environment[word->substr(0, equals)] = word->substr(equals + 1);
    words.erase(words.begin(), end + 1);
  }
  std::vector<const char*> arguments{"shampoorun"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const Variables variables(environment);
  std::ostringstream out;
  try {
    const auto options =
        read_launch_options(static_cast<int>(arguments.size()), arguments.data(), environment, out);
    require(options.has_value() == out.str().empty());
    if (options) examine(*options);
  } catch (const UsageError& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
