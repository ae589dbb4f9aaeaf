// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "distributor/launcher/agent.h"
#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/worker_setup.h"
#include "distributor/system/environment.h"

namespace {

using namespace shampoo::launcher;

/// Otherwise files and pipes would take the numbers 0 to 2.
void open_standard_descriptors() {
  int opened = 0;
  do opened = open("/dev/null", O_RDWR);
  while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) close(opened);
}

int launch(int argc, char** argv) {
  const shampoo::Environment environment = shampoo::read_environment();
  const auto options = read_launch_options(argc, argv, environment);
  if (!options) {  // the answer to --help or --version
    if (std::cout.flush()) return 0;
    throw std::runtime_error("cannot write to standard output");
  }
  for (const std::string& warning : options->warnings)
    std::cerr << "shampoorun: " << warning << '\n';
  if (limits_threads(*options, environment))
    std::cerr << "shampoorun: OMP_NUM_THREADS is not set; workers get 1, to share the processors\n";
  return Agent(*options, environment).run();
}

int exit_code_of(int argc, char** argv) {
  try {
    return launch(argc, argv);
  } catch (const UsageError& error) {
    std::cerr << "shampoorun: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "shampoorun: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a console that is gone must not end the launcher
  // The thread of a NodeThread may still run, and read what exit() would destroy.
  std::quick_exit(exit_code_of(argc, argv));
}
