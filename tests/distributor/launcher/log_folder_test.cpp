// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/log_folder.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace shampoo::launcher::test {

using shampoo::test::TemporaryFolder;
using shampoo::test::write_file;
namespace {

namespace fs = std::filesystem;

LaunchOptions options_with(const std::optional<std::string>& log_folder) {
  LaunchOptions options;
  options.run_id = "a/job";
  options.log_folder = log_folder;
  return options;
}

TEST(LogFolder, HasTorchrunsTree) {
  const TemporaryFolder temporary;
  const fs::path base = temporary.path() / "not" / "yet";
  const auto options = options_with(base);
  const LogFolder folder(options), other(options);

  EXPECT_EQ(folder.path().parent_path(), base);
  EXPECT_TRUE(folder.path().filename().string().starts_with("a_job_"));
  EXPECT_EQ(folder.path().filename().string().size(), 6 + 6U);
  EXPECT_NE(folder.path(), other.path());
  EXPECT_EQ(folder.worker(2, 11), folder.path() / "attempt_2" / "11");
  EXPECT_TRUE(fs::is_directory(folder.worker(2, 11)));
  EXPECT_EQ(folder.error_file(0, 1), folder.path() / "attempt_0" / "1" / "error.json");
}

TEST(LogFolder, IsKeptWhereSomebodyNamedIt) {
  const TemporaryFolder temporary;
  fs::path path;
  {
    const LogFolder folder(options_with(temporary.path()));
    path = folder.path();
  }
  EXPECT_TRUE(fs::exists(path));
}

TEST(LogFolder, WithoutANameIsKeptOnlyWithContent) {
  fs::path empty, full;
  {
    const LogFolder folder(options_with({}));
    empty = folder.path();
    write_file(folder.worker(0, 0) / "stdout.log", "");
  }
  {
    const LogFolder folder(options_with({}));
    full = folder.path();
    write_file(folder.error_file(0, 0), "{}");
  }
  EXPECT_FALSE(fs::exists(empty.parent_path()));
  EXPECT_TRUE(fs::exists(full));
  fs::remove_all(full.parent_path());
}

TEST(LogFolder, IsNoneForDevNull) {
  const LogFolder folder(options_with("/dev/null"));

  EXPECT_TRUE(folder.path().empty());
  EXPECT_TRUE(folder.worker(0, 0).empty());
  EXPECT_EQ(folder.error_file(0, 0), "");
}

}  // namespace
}  // namespace shampoo::launcher::test
