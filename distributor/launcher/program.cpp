// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/program.h"

#include "distributor/launcher/template_text.h"

namespace shampoo::launcher {
namespace {

bool wants_python(const LaunchOptions& options) {
  switch (options.runner) {
    case Runner::direct:
      return false;
    case Runner::python:
    case Runner::module:
      return true;
    case Runner::automatic:
      break;
  }
  return options.program.ends_with(".py");
}

}  // namespace

std::string with_local_rank(std::string_view argument, int local_rank) {
  return fill_template(argument, {{"local_rank", std::to_string(local_rank)}});
}

std::vector<std::string> worker_command(const LaunchOptions& options, int local_rank,
                                        const Environment& environment) {
  std::vector<std::string> command;
  if (wants_python(options)) {
    command = {value_or(environment, "PYTHON_EXEC", "python3"), "-u"};
    if (options.runner == Runner::module) command.emplace_back("-m");
    command.push_back(with_local_rank(options.program, local_rank));
  } else {
    command = {options.program};
  }
  for (const std::string& argument : options.arguments)
    command.push_back(with_local_rank(argument, local_rank));
  return command;
}

}  // namespace shampoo::launcher
