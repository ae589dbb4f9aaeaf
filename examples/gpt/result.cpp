// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/result.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gpt {

namespace {

template <typename... Values>
std::string text(const char* format, Values... values) {
  char line[160];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

}  // namespace

Result::Result(std::span<const Outcome> runs)
    : method(runs.front().attempt.method),
      rate(peak_rate(*method, runs.front().attempt.settings)),
      curve(runs.front().readings),
      bytes_per_parameter(runs.front().bytes_per_parameter) {
  const auto count = static_cast<double>(runs.size());
  for (std::size_t i = 0; i < curve.size(); ++i) {
    Reading& mean = curve[i] = {curve[i].step, 0, 0, 0};
    for (const Outcome& run : runs) {
      mean.loss += run.readings[i].loss / count;
      mean.seconds += run.readings[i].seconds / count;
      mean.optimizer_seconds += run.readings[i].optimizer_seconds / count;
    }
  }
}

std::optional<Reading> Result::reaches(double loss) const {
  const auto after = std::ranges::find_if(curve, [&](const Reading& r) { return r.loss <= loss; });
  if (after == curve.end()) return std::nullopt;
  if (after == curve.begin()) return curve.front();
  const Reading& before = *(after - 1);
  const double part = (before.loss - loss) / (before.loss - after->loss);
  Reading between = *after;
  between.step = before.step + std::lround(part * static_cast<double>(after->step - before.step));
  between.seconds = before.seconds + part * (after->seconds - before.seconds);
  return between;
}

double baseline(std::span<const Result> results) {
  std::optional<double> lowest;
  for (const Result& result : results)
    if (result.method->key == "adamw")
      lowest = std::min(lowest.value_or(result.loss()), result.loss());
  return lowest.value_or(results.front().loss());
}

std::string results_table(std::span<const Result> results, double target) {
  std::string table = text(
      "optimizer     rate    loss  steps to %.4f  seconds to it  ms/step  optimizer  bytes/param\n",
      target);
  for (int i = 0; i < 91; ++i) table += "─";
  table += "\n";
  for (const Result& result : results) {
    const Reading &first = result.curve.front(), &last = result.curve.back();
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, last.step - first.step));
    const auto reached = result.reaches(target);
    table += text("%-10s  %6.3g  %6.4f  ", result.method->name.c_str(), result.rate, result.loss());
    table += reached
                 ? text("%15lld  %13.1f", static_cast<long long>(reached->step), reached->seconds)
                 : text("%15s  %13s", "-", "-");
    table += text("  %7.1f  %9.2f  %11.1f\n", 1000 * (last.seconds - first.seconds) / steps,
                  1000 * (last.optimizer_seconds - first.optimizer_seconds) / steps,
                  result.bytes_per_parameter);
  }
  return table;
}

}  // namespace gpt
