// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace fashion {

namespace {

constexpr int line_every = 100;        // steps, where there is no terminal
constexpr double rewrite_every = 0.1;  // seconds, on a terminal
constexpr const char* clear_line = "\r\x1b[K";

std::string bar(double fraction) {
  constexpr int width = 10;  // the whole line stays within 80 columns
  const int full = static_cast<int>(std::lround(width * fraction));
  std::string text;
  for (int i = 0; i < width; ++i) text += i < full ? "━" : "┈";
  return text;
}

}  // namespace

Progress::Progress(std::FILE* stream)
    : stream_(stream),
      terminal_(stream && isatty(fileno(stream)) != 0),
      last_shown_(-rewrite_every) {}

void Progress::show(const Position& p) {
  if (!stream_) return;
  if (terminal_) {
    if (watch_.seconds() - last_shown_ < rewrite_every) return;
    last_shown_ = watch_.seconds();
    const std::string filled = bar(static_cast<double>(p.step) / p.steps);
    std::fprintf(stream_, "%s%s %s  step %4d/%d  loss %.4f  rate %.1e  %.0f s left ", clear_line,
                 p.method, filled.c_str(), p.step, p.steps, p.loss, p.rate, p.seconds_left);
  } else if (p.step % line_every == 0) {
    std::fprintf(stream_, "%s step %4d/%d  loss %.4f  rate %.1e  %.0f s left\n", p.method, p.step,
                 p.steps, p.loss, p.rate, p.seconds_left);
  }
  std::fflush(stream_);
}

void Progress::note(const std::string& line) {
  if (!stream_) return;
  std::fprintf(stream_, "%s%s\n", terminal_ ? clear_line : "", line.c_str());
  std::fflush(stream_);
}

}  // namespace fashion
