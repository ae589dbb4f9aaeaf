// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::command::test {
namespace {

using checkpoint::test::content_of;
using checkpoint::test::put;
using checkpoint::test::Sample;
using checkpoint::test::TemporaryFolder;

/// The program itself, in a process of its own.
class Program : public testing::Test {
 protected:
  /// Its exit status; `arguments` as a shell reads them.
  int status_of(const std::string& arguments) const {
    const std::string command = "{ '" SHAMPOO_CHECKPOINT "' " + arguments + "; } >" +
                                (folder_.path() / "out").string() + " 2>" +
                                (folder_.path() / "errors").string();
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string output() const { return content_of(folder_.path() / "out"); }
  std::string errors() const { return content_of(folder_.path() / "errors"); }
  std::string root() const { return (folder_.path() / "root").string(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(Program, EndsWithZeroWhereAllIsWell) {
  Sample{}.save(root());

  EXPECT_EQ(status_of("verify " + root()), 0);
  EXPECT_EQ(status_of("describe " + root()), 0);
  EXPECT_EQ(status_of("--help"), 0);
  EXPECT_NE(output(), "");
  EXPECT_EQ(errors(), "");
}

TEST_F(Program, EndsWithOneWhereItFindsSomething) {
  Sample{}.save(root());
  put(root() + "/step-1/manifest.json", "");
  EXPECT_EQ(status_of("verify " + root()), 1);
  EXPECT_NE(output().find("BROKEN"), std::string::npos);
}

TEST_F(Program, EndsWithTwoAndOneLineWhereItCannotWork) {
  for (const char* arguments : {"", "list", "list /nowhere", "verify /nowhere", "lost x"}) {
    EXPECT_EQ(status_of(arguments), 2) << arguments;
    EXPECT_TRUE(errors().starts_with("shampoo-checkpoint: ")) << errors();
    EXPECT_EQ(errors().find('\n'), errors().size() - 1) << errors();
  }
}

TEST_F(Program, EndsWithTwoWhereNobodyTakesItsOutput) {
  EXPECT_EQ(status_of("--help >/dev/full"), 2);
  EXPECT_NE(errors().find("standard output"), std::string::npos) << errors();
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
