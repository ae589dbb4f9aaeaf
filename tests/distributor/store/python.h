// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "distributor/store/socket.h"

namespace shampoo::test {

/// A running Python program. Its errors are those of the test.
class Python {
 public:
  /// Throws std::system_error where the interpreter cannot be started.
  Python(const std::string& interpreter, std::vector<std::string> arguments);
  /// Ends its input, and it where it does not end then.
  ~Python();
  Python(const Python&) = delete;
  Python& operator=(const Python&) = delete;

  /// Without its end; what there is after 60 s, or when the output ended.
  std::string read_line();
  /// Waits 60 s for it. Its exit status; -1 where it has none.
  int finish();

 private:
  pid_t pid_ = -1;
  store::Socket input_, output_;
};

}  // namespace shampoo::test
