// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/program.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <system_error>

#include "distributor/launcher/template_text.h"

namespace shampoo::launcher {
namespace {

namespace fs = std::filesystem;

bool can_run(const fs::path& path) {
  std::error_code nothing;
  return fs::is_regular_file(path, nothing) && ::access(path.c_str(), X_OK) == 0;
}

/// As execvp() looks for it.
std::string find_executable(const std::string& name, const Environment& environment) {
  if (name.find('/') != std::string::npos) {
    std::error_code nothing;
    if (can_run(name)) return name;
    throw MissingProgram(fs::exists(name, nothing) ? name + " may not be executed"
                                                   : "there is no " + name);
  }
  const auto path = environment.find("PATH");
  std::istringstream folders(path == environment.end() ? "/bin:/usr/bin" : path->second);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = (folder.empty() ? fs::path(".") : fs::path(folder)) / name;
    if (can_run(candidate)) return candidate;
  }
  std::error_code nothing;
  throw MissingProgram("no program " + name + " in PATH" +
                       (fs::exists(name, nothing) ? "; ./" + name + " would be the one here" : ""));
}

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

Program worker_program(const LaunchOptions& options, int local_rank,
                       const Environment& environment) {
  Program program;
  if (wants_python(options)) {
    const std::string python = value_or(environment, "PYTHON_EXEC", "python3");
    program.path = find_executable(python, environment);
    program.arguments = {python, "-u"};
    if (options.runner == Runner::module) program.arguments.push_back("-m");
    std::string script = with_local_rank(options.program, local_rank);
    std::error_code nothing;
    if (options.runner != Runner::module && !fs::exists(script, nothing)) {
      throw MissingProgram("there is no " + script);
    }
    program.arguments.push_back(std::move(script));
  } else {
    program.path = find_executable(options.program, environment);
    program.arguments = {options.program};
  }
  for (const std::string& argument : options.arguments) {
    program.arguments.push_back(with_local_rank(argument, local_rank));
  }
  return program;
}

}  // namespace shampoo::launcher
