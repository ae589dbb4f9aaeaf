// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>

#include "examples/fashion/stopwatch.h"

namespace fashion {

/// How far a run has come.
struct Position {
  const char* method;
  int step;  ///< steps taken
  int steps;
  double loss;
  double rate;
  double seconds_left;
};

/// Tells a person how the training goes: on a terminal one line that is written again and again,
/// elsewhere a line now and then.
class Progress {
 public:
  /// Borrows the stream; null: nothing is shown.
  explicit Progress(std::FILE* stream);

  void show(const Position& position);

  /// A line that stays.
  void note(const std::string& line);

 private:
  std::FILE* stream_;
  bool terminal_;
  Stopwatch watch_;
  double last_shown_;  ///< on that watch
};

}  // namespace fashion
