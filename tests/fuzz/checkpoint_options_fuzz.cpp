// SPDX-License-Identifier: Apache-2.0
// The command line of shampoo-checkpoint, a word per line.
#include <sstream>

#include "shampoo/checkpoint/command/command_options.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/words.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shampoo::checkpoint::command;
  using shampoo::fuzz::require;
  std::ostringstream out;
  try {
    const auto options = read_options(shampoo::fuzz::words_of(data, size), out);
    require(options.has_value() == out.str().empty());
    if (!options) return 0;
    require(!options->path.empty());
    require((options->last >= 1) == (options->task == Task::retain));
  } catch (const UsageError& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
