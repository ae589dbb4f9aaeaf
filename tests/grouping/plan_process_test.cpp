// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "grouping/hash.h"
#include "grouping/plan.h"
#include "grouping/plan_description.h"
#include "grouping/segments.h"
#include "tests/grouping/sample_groups.h"
#include "tests/support/models.h"

namespace shampoo::grouping {
namespace {

constexpr const char* marker = "hash of all plans: ";

/// One number for many plans, their extensions and their segments.
std::string hash_of_all() {
  Hash all;
  const auto add = [&](const Plan& plan) {
    all.add(describe(plan));
    for (const std::vector<Block>& blocks : plan.blocks)
      for (const Block& block : blocks) {
        all.add(static_cast<std::uint64_t>(block.owner));
        all.add(static_cast<std::uint64_t>(block.phase));
      }
    for (std::int64_t begin : segments(plan, 64).begins) all.add(static_cast<std::uint64_t>(begin));
  };
  std::mt19937 random(99);
  for (int trial = 0; trial < 200; ++trial) {
    const Plan first = plan(test::random_groups(random, "first."), 1 + trial % 5);
    add(first);
    add(extend(first, test::random_groups(random, "second.")));
  }
  for (const char* model : test::model_names) add(plan(test::groups_of(model, 3), 8));
  return std::to_string(all.value());
}

/// What this program prints after the marker when only PlanProcess.PrintsItsHash runs, under
/// other settings of the environment.
std::string hash_in_another_process(const std::string& settings) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      "env -i " + settings + " '" + program + "' --gtest_filter=PlanProcess.PrintsItsHash 2>&1";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) return "popen failed";
  std::string output;
  std::array<char, 4096> chunk{};
  while (const std::size_t size = std::fread(chunk.data(), 1, chunk.size(), pipe.get()))
    output.append(chunk.data(), size);
  const std::size_t found = output.find(marker);
  if (found == std::string::npos) return "no hash in: " + output;
  const std::size_t start = found + std::string(marker).size();
  return output.substr(start, output.find('\n', start) - start);
}

TEST(PlanProcess, PrintsItsHash) {
  const std::string text = hash_of_all();

  std::printf("%s%s\n", marker, text.c_str());

  EXPECT_EQ(hash_of_all(), text);
}

TEST(PlanProcess, GivesTheSamePlansInOtherProcesses) {
  const std::string here = hash_of_all();

  EXPECT_EQ(hash_in_another_process("LC_ALL=C MALLOC_PERTURB_=85"), here);
  EXPECT_EQ(hash_in_another_process("LC_ALL=de_DE.UTF-8 LANG=tr_TR MALLOC_PERTURB_=170"), here);
  EXPECT_EQ(hash_in_another_process("MALLOC_ARENA_MAX=1 MALLOC_TOP_PAD_=1048576"), here);
}

}  // namespace
}  // namespace shampoo::grouping
