// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "distributor/launcher/output/failure_summary.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::launcher::test {

using shampoo::test::TemporaryFolder;
using shampoo::test::write_file;
namespace {

using Clock = std::chrono::system_clock;

Clock::time_point at(int seconds) { return Clock::time_point(std::chrono::seconds(seconds)); }

class ErrorFiles : public testing::Test {
 protected:
  ErrorFile read(const std::string& content) {
    return read_error_file(write_file(folder_.path() / "error.json", content)).value();
  }

  static bool is_broken(const ErrorFile& error) {
    return error.message.starts_with("the error file ") && error.traceback.empty() && !error.time;
  }

  TemporaryFolder folder_;
};

TEST_F(ErrorFiles, ReadTheFormOfPythonsRecord) {
  const ErrorFile error = read(R"({"message":{"message":"ValueError: x","extraInfo":
    {"py_callstack":"a\nb","timestamp":"1700000000"}}})");

  EXPECT_EQ(error.message, "ValueError: x");
  EXPECT_EQ(error.traceback, "a\nb");
  EXPECT_EQ(error.time, at(1'700'000'000));
}

TEST_F(ErrorFiles, ReadTheShortForm) {
  const ErrorFile error = read(R"({"message":"text","timestamp":12})");

  EXPECT_EQ(error.message, "text");
  EXPECT_EQ(error.traceback, "");
  EXPECT_EQ(error.time, at(12));
}

TEST_F(ErrorFiles, AreEmptyWhereThereIsNone) {
  EXPECT_FALSE(read_error_file(""));
  EXPECT_FALSE(read_error_file(folder_.path() / "nothing"));
  EXPECT_FALSE(read_error_file(folder_.path()));
}

TEST_F(ErrorFiles, ReportWhatIsBrokenAndGoOn) {
  const std::string whole = R"({"message":{"message":"m","extraInfo":{"timestamp":"1"}}})";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const ErrorFile error = read(whole.substr(0, length));
    EXPECT_TRUE(is_broken(error)) << error.message;
  }
  for (const char* content : {"null", "[]", "3", "{}", "{\"message\":null}", "\xff\xfe"}) {
    EXPECT_TRUE(is_broken(read(content))) << content;
  }
}

TEST_F(ErrorFiles, OfWrongTypesAreBrokenAndOddTimesNone) {
  EXPECT_TRUE(is_broken(read(R"({"message":{"message":[1,2],"extraInfo":{"py_callstack":"x"}}})")));
  EXPECT_TRUE(is_broken(read(R"({"message":"m","py_callstack":3})")));
  for (const char* time : {"-1", "1e300", "50000000000", "\"soon\"", "[]"}) {
    const ErrorFile error = read(std::string(R"({"message":"m","timestamp":)") + time + "}");
    EXPECT_EQ(error.message, "m") << time;
    EXPECT_FALSE(error.time) << time;
  }
}

TEST_F(ErrorFiles, SurviveDeepNesting) {
  const std::string deep(200'000, '[');
  EXPECT_TRUE(is_broken(read(deep)));
  const ErrorFile error = read("{\"message\":" + deep + std::string(200'000, ']') + "}");
  EXPECT_LT(error.message.size(), 400U);
}

}  // namespace
}  // namespace shampoo::launcher::test
