// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/golden_test_case.h"
#include "tests/golden_test_run.h"

// Trains every golden case on the ranks of the job that it is started in, and compares the bits of
// all values with those of one rank. Each rank compares its own copy.

namespace shampoo::test {
namespace {

namespace fs = std::filesystem;

bool same_bits(const Values& a, const Values& b) {
  const auto bits = [](double number) { return std::bit_cast<std::uint64_t>(number); };
  return std::ranges::equal(a, b, [&](const auto& step_a, const auto& step_b) {
    return std::ranges::equal(step_a, step_b, [&](const Numbers& x, const Numbers& y) {
      return std::ranges::equal(x, y, {}, bits, bits);
    });
  });
}

/// Trajectories compared; throws where one differs.
int compare(const fs::path& path, Communicator& ranks) {
  const GoldenOutline outline = read_outline(path);
  if (outline.family == "torch" || !outline.unsupported.empty()) return 0;
  const GoldenCase golden = read_case(path);
  const auto alone = single_rank_communicator();
  int compared = 0;
  for (const Type type : {Type::float64, Type::float32}) {
    const Values expected = run(golden, type, Merging::one_optimizer, *alone);
    for (const Merging merging : {Merging::one_optimizer, Merging::one_optimizer_per_group}) {
      if (!same_bits(run(golden, type, merging, ranks), expected))
        throw std::runtime_error(path.stem().string() + " in " + std::string(name_of(type)) +
                                 ": rank " + std::to_string(ranks.rank()) + " of " +
                                 std::to_string(ranks.size()) + " has other bits than one rank");
      ++compared;
    }
  }
  return compared;
}

}  // namespace
}  // namespace shampoo::test

int main() {
  using namespace shampoo::test;
  try {
    const auto backend = shampoo::cpu_backend({.threads = 1});
    const auto ranks = shampoo::join(*backend);
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(fs::path(GOLDEN_CASES)))
      if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
    std::ranges::sort(paths);
    int compared = 0;
    for (const fs::path& path : paths) compared += compare(path, *ranks);
    if (ranks->rank() == 0)
      std::printf("%d trajectories have the bits of one rank on %d ranks, %s\n", compared,
                  ranks->size(), ranks->description().c_str());
    return compared >= 100 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "golden_ranks: %s\n", error.what());
    return 1;
  }
}
