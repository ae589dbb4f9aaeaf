// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "tests/golden_test_case.h"
#include "tests/golden_test_run.h"
#include "tests/support/device/backends.h"
#include "tests/support/near.h"

namespace shampoo::test {
namespace {

namespace fs = std::filesystem;

class GoldenTest : public ::testing::Test {
 public:
  explicit GoldenTest(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

void add_test(const char* suite, const std::string& name, const std::function<void()>& body) {
  ::testing::RegisterTest(suite, name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [body]() -> ::testing::Test* { return new GoldenTest(body); });
}

void expect_near(const Values& ours, const GoldenCase& golden, double tolerance) {
  for (int step = 0; step < golden.steps; ++step)
    for (std::size_t i = 0; i < golden.parameters.size(); ++i)
      ASSERT_TRUE(near(ours[step][i], golden.parameters[i].values[step], tolerance))
          << golden.parameters[i].name << " after step " << step + 1;
  for (std::size_t e = 0; e < golden.evaluate_after.size(); ++e)
    for (std::size_t i = 0; i < golden.parameters.size(); ++i)
      ASSERT_TRUE(near(ours[static_cast<std::size_t>(golden.steps) + e][i],
                       golden.parameters[i].evaluations[e], tolerance))
          << golden.parameters[i].name << " evaluated after step " << golden.evaluate_after[e];
}

std::unique_ptr<Communicator> one_rank_at(Place place) {
  return single_rank_communicator(place == Place::cpu ? MemoryKind::host : MemoryKind::cuda);
}

void agrees_in_float64(const fs::path& path, Place place) {
  const GoldenCase golden = read_case(path);

  const auto ranks = one_rank_at(place);
  const Values ours = run_in_float64(golden, Merging::one_optimizer, *ranks, place);

  // The tolerance of the cases' README: 64 times what one shaken bit of every gradient does.
  expect_near(ours, golden, 64 * std::max(golden.sensitivity, 0x1p-50));
}

void agrees_in_float32(const fs::path& path, Place place) {
  const GoldenCase golden = read_case(path);
  const std::string reason = beyond_float32(golden);
  if (!reason.empty()) GTEST_SKIP() << reason;

  const auto ranks = one_rank_at(place);
  const Float32Run ours = run_in_float32(golden, Merging::one_optimizer, *ranks, place);

  // Gradients shaken by one part in 2^52 move the worst value by `sensitivity`, so shaken by one
  // part in 2^24, which is what rounding them to float32 does, by sensitivity * 2^52 * 2^-24. A
  // solver adds an error of its own: its roots change the direction, which is linear in each of
  // them, by s * 2^-24. Both recur at every step, and each of the few dozen other roundings of a
  // step is at most as large: a factor of 64, as in float64.
  // Values are rounded once per step at least, as in float64: not less than 2^-50 * 2^52.
  const double shaken = std::max(golden.sensitivity, 0x1p-50) * 0x1p52;
  expect_near(ours.values, golden, 64 * 0x1p-24 * (shaken + ours.solver_error));
}

void expect_same_bits(const Values& a, const Values& b, const GoldenCase& golden) {
  const auto same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t row = 0; row < a.size(); ++row)
    for (std::size_t i = 0; i < golden.parameters.size(); ++i)
      ASSERT_TRUE(std::ranges::equal(a[row][i], b[row][i], same))
          << golden.parameters[i].name << " in row " << row;
}

void merges(const fs::path& path, Type type, Place place) {
  const GoldenCase golden = read_case(path);
  const auto ranks = one_rank_at(place);
  expect_same_bits(run(golden, type, Merging::one_optimizer, *ranks, place),
                   run(golden, type, Merging::one_optimizer_per_group, *ranks, place), golden);
}

void is_the_same_on_all_ranks(const fs::path& path, Type type) {
  const GoldenCase golden = read_case(path);
  const auto alone = single_rank_communicator();
  const Values expected = run(golden, type, Merging::one_optimizer, *alone);
  for (const Merging merging : {Merging::one_optimizer, Merging::one_optimizer_per_group}) {
    if (merging == Merging::one_optimizer_per_group && golden.groups.size() < 2) continue;
    for (const int count : {2, 3, 4, 8}) {
      std::vector<Values> values(static_cast<std::size_t>(count));
      run_ranks(count, [&](Communicator& ranks) {
        values[static_cast<std::size_t>(ranks.rank())] = run(golden, type, merging, ranks);
      });
      for (const Values& of_rank : values) expect_same_bits(of_rank, expected, golden);
    }
  }
}

/// The tests of one case on one backend.
void add_case_at(Place place, const fs::path& path, const std::string& name, bool has_groups) {
  const std::string where = place == Place::cpu ? "" : "_on_" + name_of(place);
  const auto add = [&](const char* suite, auto body) {
    add_test(suite, name + where, [=] {
      require(place);
      if (!::testing::Test::IsSkipped() && !::testing::Test::HasFatalFailure()) body();
    });
  };
  add("Golden", [=] { agrees_in_float64(path, place); });
  add("GoldenInFloat32", [=] { agrees_in_float32(path, place); });
  if (!has_groups) return;
  add("GoldenMergedEqualsUnmergedInFloat64", [=] { merges(path, Type::float64, place); });
  add("GoldenMergedEqualsUnmergedInFloat32", [=] { merges(path, Type::float32, place); });
}

void add_case(const fs::path& path, const std::string& name) {
  GoldenOutline outline;
  try {
    outline = read_outline(path);
  } catch (const std::exception& error) {
    const std::string fault = error.what();
    return add_test("Golden", name, [fault] { FAIL() << fault; });
  }
  const std::string& family = outline.family;
  if (!outline.unsupported.empty())
    return add_test("Golden", name, [kind = outline.unsupported] {
      GTEST_SKIP() << "the library does not have the " << kind;
    });
  if (family != "shampoo" && family != "solvers" && family != "beyond" && family != "family" &&
      family != "torch")
    return add_test("Golden", name, [family] { FAIL() << "unknown family: " << family; });

  for (const Place place : all_places) add_case_at(place, path, name, outline.groups > 1);
  add_test("GoldenOnManyRanksInFloat64", name,
           [path] { is_the_same_on_all_ranks(path, Type::float64); });
  add_test("GoldenOnManyRanksInFloat32", name,
           [path] { is_the_same_on_all_ranks(path, Type::float32); });
}

std::vector<fs::path> cases_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  if (!fs::is_directory(folder)) return paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

void skips_at_most_three_cases_in_float32(const std::vector<fs::path>& paths) {
  std::vector<std::string> skipped;
  for (const fs::path& path : paths) {
    const GoldenOutline outline = read_outline(path);
    if (!outline.unsupported.empty()) continue;
    if (!beyond_float32(read_case(path)).empty()) skipped.push_back(path.stem());
  }
  EXPECT_LE(skipped.size(), 3u) << ::testing::PrintToString(skipped);
}

/// Folders of SHAMPOO_GOLDEN, separated by colons; unless set, the copy next to this file.
void add_folders() {
  const char* const given = std::getenv("SHAMPOO_GOLDEN");
  const fs::path copy = GOLDEN_CASES;
  std::istringstream folders(given ? std::string(given) : copy.string());
  std::map<std::string, int> seen;
  int named = 0;
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::vector<fs::path> paths = cases_in(folder);
    ++named;
    if (paths.empty())
      add_test("Golden", "CasesAreFoundIn" + folder, [folder] { FAIL() << folder << ": no case"; });
    for (const fs::path& path : paths) {
      const int copies = ++seen[path.stem()];
      add_case(path, path.stem().string() + (copies > 1 ? "_" + std::to_string(copies) : ""));
    }
  }
  if (named == 0)
    add_test("Golden", "FoldersAreNamed", [] { FAIL() << "SHAMPOO_GOLDEN names no folder"; });
  if (!given)
    add_test("GoldenInFloat32", "AtMostThreeCasesAreSkipped",
             [paths = cases_in(copy)] { skips_at_most_three_cases_in_float32(paths); });
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  shampoo::test::add_folders();
  return RUN_ALL_TESTS();
}
