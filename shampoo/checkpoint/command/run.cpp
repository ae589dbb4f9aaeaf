// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/run.h"

#include "shampoo/checkpoint/command/compare.h"
#include "shampoo/checkpoint/command/compare_report.h"
#include "shampoo/checkpoint/command/describe.h"
#include "shampoo/checkpoint/command/list.h"
#include "shampoo/checkpoint/command/places.h"
#include "shampoo/checkpoint/command/remove.h"
#include "shampoo/checkpoint/command/text.h"
#include "shampoo/checkpoint/command/verify.h"

namespace shampoo::checkpoint::command {
namespace {

int verify(const Options& options, std::ostream& out) {
  const Verification verification = verify_path(options.path);
  out << (options.json ? to_text(json_of(verification)) : text_of(verification));
  return verification.sound() ? fine : found_something;
}

int compare(const Options& options, std::ostream& out) {
  const Comparison comparison = compare_checkpoints(checkpoint_at(options.path),
                                                    checkpoint_at(options.other), options.prefix);
  out << (options.json ? to_text(json_of(comparison)) : text_of(comparison));
  return comparison.equal() ? fine : found_something;
}

}  // namespace

int run(const Options& options, std::ostream& out) {
  switch (options.task) {
    case Task::verify:
      return verify(options, out);
    case Task::compare:
      return compare(options, out);
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
