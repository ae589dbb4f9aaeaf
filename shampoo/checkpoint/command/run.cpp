// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/run.h"

namespace shampoo::checkpoint::command {

int run(const Options& options, std::ostream& out) {
  switch (options.task) {
    case Task::verify:
      return verify(options, out);
    case Task::list:
      list(options, out);
      break;
    case Task::describe:
      describe(options, out);
      break;
    case Task::clean:
      clean(options, out);
      break;
    case Task::retain:
      retain(options, out);
      break;
  }
  return fine;
}

}  // namespace shampoo::checkpoint::command
