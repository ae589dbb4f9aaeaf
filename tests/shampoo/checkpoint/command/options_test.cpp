// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "shampoo/checkpoint/command/command_options.h"

namespace shampoo::checkpoint::command::test {
namespace {

Options options_of(const std::vector<std::string>& words) {
  std::ostringstream out;
  return read_options(words, out).value();
}

std::string refusal_of(const std::vector<std::string>& words) {
  try {
    options_of(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string notice_of(const std::vector<std::string>& words) {
  std::ostringstream out;
  return read_options(words, out) ? "" : out.str();
}

TEST(CommandLines, AreUnderstood) {
  const Options describe = options_of({"describe", "a", "--prefix=w/", "--json"});
  EXPECT_EQ(describe.task, Task::describe);
  EXPECT_EQ(describe.path, "a");
  EXPECT_EQ(describe.prefix, "w/");
  EXPECT_TRUE(describe.json);
  const Options retain = options_of({"retain", "--last", "3", "root", "--dry-run"});
  EXPECT_EQ(retain.last, 3);
  EXPECT_EQ(retain.path, "root");
  EXPECT_TRUE(retain.dry_run);
  EXPECT_EQ(options_of({"list", "--", "-root"}).path, "-root");
  EXPECT_EQ(options_of({"list", "root with blanks,[commas]"}).path, "root with blanks,[commas]");
  EXPECT_TRUE(options_of({"describe", "x", "--values"}).values);
}

TEST(CommandLines, ThatMakeNoSenseAreRefusedInOneLine) {
  const std::vector<std::vector<std::string>> senseless{
      {},
      {"lost"},
      {"list"},
      {"list", "a", "b"},
      {"compare", "a", "b"},
      {"retain", "a"},
      {"retain", "a", "--last", "0"},
      {"retain", "a", "--last", "-1"},
      {"retain", "a", "--last", "99999999999999999999"},
      {"retain", "a", "--last", "two"},
      {"list", "a", "--last", "1"},
      {"verify", "a", "--jsno"},
      {"list", "a", "verify", "b"},
      {"list", ""}};
  for (const auto& words : senseless) {
    const std::string refusal = refusal_of(words);
    EXPECT_NE(refusal, "") << testing::PrintToString(words);
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  }
}

TEST(CommandLines, AreRefusedForAnUnknownWordRatherThanForWhatIsMissing) {
  EXPECT_EQ(refusal_of({"bogus", "a"}), "'bogus' was not expected; try --help");
  EXPECT_EQ(refusal_of({"retain", "--keep", "3", "a"}), "'--keep' was not expected; try --help");
  EXPECT_NE(refusal_of({"retain", "a"}).find("--last"), std::string::npos);
}

TEST(CommandLines, AskForHelpOfTheProgramAndOfEachCommand) {
  EXPECT_NE(notice_of({"--help"}).find("Exit status"), std::string::npos);
  EXPECT_NE(notice_of({"--version"}).find("shampoo-checkpoint "), std::string::npos);
  for (const char* task : {"list", "verify", "describe", "clean", "retain"}) {
    EXPECT_NE(notice_of({"--help"}).find(std::string("\n  ") + task), std::string::npos) << task;
    EXPECT_NE(notice_of({task, "--help"}).find("--json"), std::string::npos) << task;
  }
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
