// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "shampoo/schedules.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

const Schedule plotted = schedules::Cosine{.steps = 100};

/// Width and height in the header of a PNG file; empty for other files.
std::vector<int> size_of_picture(const std::filesystem::path& file) {
  const std::string bytes = content_of(file);
  if (bytes.size() < 24 || bytes.substr(0, 8) != "\x89PNG\r\n\x1a\n") return {};
  const auto number = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = at; i < at + 4; ++i)
      value = 256 * value + static_cast<unsigned char>(bytes[i]);
    return value;
  };
  return {number(16), number(20)};
}

class APlotOfASchedule : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("gnuplot --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no gnuplot";
  }
};

TEST_F(APlotOfASchedule, IsAPictureOfItsValues) {
  const TemporaryFolder folder;
  const std::filesystem::path falls = folder.path() / "it's.png", again = folder.path() / "again",
                              other = folder.path() / "other";
  plotted.plot(falls, 0.1, 100);
  plotted.plot(again, 0.1, 100);
  EXPECT_EQ(size_of_picture(falls), (std::vector<int>{1000, 620}));
  EXPECT_EQ(content_of(falls), content_of(again));
  Schedule().plot(other, 0.1, 100);
  EXPECT_NE(content_of(falls), content_of(other));
  plotted.plot(other, 0.2, 100);
  EXPECT_NE(content_of(falls), content_of(other));
  plotted.plot(other, 0.1, 90);
  EXPECT_NE(content_of(falls), content_of(other));
}

TEST_F(APlotOfASchedule, OfOneStepOrOfZerosIsAPictureToo) {
  const TemporaryFolder folder;
  for (const double base : {0.0, 0.1}) {
    plotted.plot(folder.path() / "short", base, 1);
    EXPECT_EQ(size_of_picture(folder.path() / "short"), (std::vector<int>{1000, 620})) << base;
  }
}

TEST_F(APlotOfASchedule, NamesWhatIsOutOfRange) {
  for (const double base : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_TRUE(error_of<std::invalid_argument>([&] {
                  plotted.plot("x.png", base, 1);
                }).starts_with("Schedule::plot(): base must be in [0, inf), got "));
  EXPECT_EQ(error_of<std::invalid_argument>([&] { plotted.plot("x.png", 1, 0); }),
            "Schedule::plot(): steps must be >= 1, got 0");
  for (const char* name : {"", "x\n.png"})
    EXPECT_EQ(error_of<std::invalid_argument>([&] { plotted.plot(name, 1, 1); }),
              "Schedule::plot(): png must be the name of a file, in one line");
  const Schedule grows = schedules::Function{[](std::int64_t) { return INFINITY; }};
  EXPECT_EQ(error_of<std::invalid_argument>([&] { grows.plot("x.png", 1, 1); }),
            "Schedule::plot(): values must be in [0, inf), got inf");
}

TEST_F(APlotOfASchedule, HasAFileOfItsNameAndRunsNoCommand) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  plotted.plot("|touch made", 1, 1);
  std::filesystem::current_path(before);
  EXPECT_EQ(size_of_picture(folder.path() / "|touch made"), (std::vector<int>{1000, 620}));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "made"));
}

TEST_F(APlotOfASchedule, SaysWhyThereIsNone) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "missing" / "x.png";
  EXPECT_EQ(error_of<std::runtime_error>([&] { plotted.plot(file, 1, 1); }),
            "Schedule::plot(): gnuplot cannot write " + file + "; it says why on standard error");
  const std::string path = std::getenv("PATH");
  setenv("PATH", folder.path().c_str(), 1);
  const std::string missing = error_of<std::runtime_error>([&] { plotted.plot("x.png", 1, 1); });
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(missing, "Schedule::plot(): there is no gnuplot; Debian: gnuplot-nox");
}

}  // namespace
}  // namespace shampoo::test
