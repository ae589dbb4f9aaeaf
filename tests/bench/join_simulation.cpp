// SPDX-License-Identifier: Apache-2.0
// What joining takes: ranks that are threads of this process join a job over sockets and a store,
// as processes do. Prints a line for each number of ranks, and what the last ones say of more.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

#include "tests/distributor/rendezvous/joining_ranks.h"

namespace {

using shampoo::test::JoinCosts;
using shampoo::test::JoinStage;

double mebibytes(double bytes) { return bytes / (1 << 20); }

struct Line {
  double ranks, seconds, requests, received, sent, keys, table, descriptors;
};

void print(const Line& line, const char* what) {
  std::printf("%6.0f %10.2f %10.0f %10.2f %10.2f %8.0f %10.2f %12.0f  %s\n", line.ranks,
              line.seconds, line.requests, mebibytes(line.received), mebibytes(line.sent),
              line.keys, mebibytes(line.table), line.descriptors, what);
}

Line measure(int ranks, JoinStage stage) {
  const JoinCosts costs = shampoo::test::join_ranks(ranks, stage);
  return {double(ranks),
          costs.time.count(),
          double(costs.store.requests),
          double(costs.store.bytes_received),
          double(costs.store.bytes_sent),
          double(costs.store.keys),
          double(costs.store.most_bytes),
          double(costs.descriptors)};
}

/// y = a n^b through two points, at another n.
double fitted(double n1, double y1, double n2, double y2, double n) {
  return y2 * std::pow(n / n2, std::log(y2 / y1) / std::log(n2 / n1));
}

Line extrapolate(const Line& one, const Line& two, double ranks) {
  const auto at = [&](double Line::*field) {
    return fitted(one.ranks, one.*field, two.ranks, two.*field, ranks);
  };
  return {ranks,           at(&Line::seconds), at(&Line::requests), at(&Line::received),
          at(&Line::sent), at(&Line::keys),    at(&Line::table),    at(&Line::descriptors)};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What joining a job takes, by the number of ranks");
  std::vector<int> sizes{64, 256, 1024};
  bool gloo = false;
  int beyond = 4096;
  app.add_option("--ranks", sizes, "numbers of ranks, ascending")
      ->delimiter(',')
      ->check(CLI::Range(1, 65535));
  app.add_option("--beyond", beyond, "extrapolate to this number of ranks");
  app.add_flag("--gloo", gloo, "connect over Gloo as well");
  CLI11_PARSE(app, argc, argv);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);

  std::printf("%6s %10s %10s %10s %10s %8s %10s %12s\n", "ranks", "seconds", "requests", "MiB in",
              "MiB out", "keys", "table MiB", "descriptors");
  std::vector<Line> lines;
  for (const int ranks : sizes) {
    lines.push_back(measure(ranks, gloo ? JoinStage::connected : JoinStage::registered));
    print(lines.back(), "");
    std::fflush(stdout);
  }
  if (lines.size() > 1 && beyond > lines.back().ranks)
    print(extrapolate(lines[lines.size() - 2], lines.back(), beyond), "by a n^b of the last two");
}
