// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "distributor/system/sigpipe_guard.h"
#include "grouping/number_text.h"
#include "shampoo/schedules.h"
#include "shampoo/validation/checks.h"

namespace shampoo {

namespace {

/// In gnuplot's quotes, in which nothing but the quote itself is special.
std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? "''" : std::string(1, c);
  return all + "'";
}

/// The exit status of gnuplot, which reads the script.
int run_gnuplot(const std::string& script) {
  const SigpipeGuard no_sigpipe;
  std::FILE* input = popen("exec gnuplot -d > /dev/null", "w");
  if (input == nullptr) return 127;
  std::fwrite(script.data(), 1, script.size(), input);
  const int status = pclose(input);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

void Schedule::plot(const std::string& png, double base, std::int64_t steps) const {
  const Checks checks("Schedule::plot()");
  checks.at_least_zero("base", base);
  checks.at_least_one("steps", steps);
  if (png.empty() || png.find('\n') != std::string::npos)
    throw std::invalid_argument("Schedule::plot(): png must be the name of a file, in one line");
  std::vector<double> points = values(base, steps);
  points.push_back(points.back());  // where the last step ends
  const double highest = std::ranges::max(points);
  for (const double point : points) checks.at_least_zero("values", point);
  // Of a name that begins with '|' gnuplot would make a command.
  const std::string file = std::filesystem::absolute(png);
  std::string script =
      "set terminal pngcairo size 1000,620\nset output " + quoted(file) +
      "\nset xlabel 'step'\nset grid\nunset key\nset xrange [0:" + std::to_string(steps) +
      "]\nset yrange [0:" + grouping::exact_text(highest > 0 ? 1.05 * highest : 1) +
      "]\nplot '-' using 0:1 with steps linewidth 2\n";
  for (const double point : points) script += grouping::exact_text(point) + "\n";
  const int status = run_gnuplot(script + "e\n");
  if (status == 127)
    throw std::runtime_error("Schedule::plot(): there is no gnuplot; Debian: gnuplot-nox");
  if (status != 0)
    throw std::runtime_error("Schedule::plot(): gnuplot cannot write " + png +
                             "; it says why on standard error");
}

}  // namespace shampoo
