// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "distributor/rendezvous/join.h"
#include "tests/support/temporary_folder.h"

namespace shampoo {
namespace {

class ErrorReport : public testing::Test {
 protected:
  ErrorReport() { setenv("TORCHELASTIC_ERROR_FILE", file_.c_str(), 1); }
  ~ErrorReport() override { unsetenv("TORCHELASTIC_ERROR_FILE"); }

  nlohmann::json written() const { return nlohmann::json::parse(std::ifstream(file_)); }
  auto files() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()),
                         std::filesystem::directory_iterator());
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "error.json";
};

TEST_F(ErrorReport, MessageStandsWhereTorchrunLooksForIt) {
  report_error("rank 3: \"lost\"\n\tC:\\x \x01 ä €");

  const nlohmann::json message = written().at("message");
  EXPECT_EQ(message.at("message"), "rank 3: \"lost\"\n\tC:\\x \x01 ä €");
  EXPECT_EQ(message.at("extraInfo").at("py_callstack"), message.at("message"));
  EXPECT_GT(std::stoll(message.at("extraInfo").at("timestamp").get<std::string>()), 1'600'000'000);
  EXPECT_EQ(files(), 1);
}

TEST_F(ErrorReport, BytesThatAreNoTextDoNotSpoilTheFile) {
  report_error(
      "a\xff"
      "b\xc3"
      "c\xed\xa0\x80"
      "d\xf5\xe2\x82");

  EXPECT_EQ(written().at("message").at("message"),
            "a\uFFFDb\uFFFDc\uFFFD\uFFFD\uFFFDd\uFFFD\uFFFD");
}

TEST_F(ErrorReport, LaterReportReplacesAnEarlierOne) {
  report_error("one");
  report_error("two");

  EXPECT_EQ(written().at("message").at("message"), "two");
  EXPECT_EQ(files(), 1);
}

TEST_F(ErrorReport, NothingIsWrittenWhereNobodyAsks) {
  unsetenv("TORCHELASTIC_ERROR_FILE");
  report_error("one");
  setenv("TORCHELASTIC_ERROR_FILE", "", 1);
  report_error("one");
  setenv("TORCHELASTIC_ERROR_FILE", (folder_.path() / "absent" / "error.json").c_str(), 1);
  report_error("one");

  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace shampoo
