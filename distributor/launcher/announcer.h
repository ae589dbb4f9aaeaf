// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>

#include "distributor/launcher/console_end.h"

namespace shampoo::launcher {

/// What the launcher itself says, on its standard error. Never waits: a reader who does not read
/// must not keep the job alive. What finds no room is kept for flush(), a MiB and no more.
class Announcer {
 public:
  explicit Announcer(int descriptor = STDERR_FILENO) : console_(descriptor) {}

  /// One line, behind the launcher's name.
  void say(std::string_view line);
  void print(std::string_view text);
  /// Whether there is something for flush() to write, once descriptor() takes it.
  bool pending() const { return !pending_.empty(); }
  int descriptor() const { return console_.descriptor(); }
  void flush();

 private:
  ConsoleEnd console_;
  std::string pending_;
};

}  // namespace shampoo::launcher
