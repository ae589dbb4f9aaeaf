// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "shampoo/checkpoint/command/command_options.h"
#include "shampoo/checkpoint/command/run.h"
#include "shampoo/checkpoint/command/text.h"

int main(int argc, char** argv) {
  using namespace shampoo::checkpoint::command;
  try {
    const std::vector<std::string> arguments(argv + (argc > 0), argv + argc);
    const auto options = read_options(arguments, std::cout);
    const int status = options ? run(*options, std::cout) : fine;
    if (std::cout.flush()) return status;
    std::cerr << "shampoo-checkpoint: standard output cannot be written\n";
  } catch (const std::exception& error) {
    std::cout.flush();
    std::cerr << "shampoo-checkpoint: " << printable(error.what()) << '\n';
  }
  return went_wrong;
}
