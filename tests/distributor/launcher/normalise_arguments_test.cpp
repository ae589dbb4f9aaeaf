// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/normalise_arguments.h"

#include <gtest/gtest.h>

#include "distributor/launcher/launch_options.h"

namespace shampoo::launcher::test {
namespace {

using Words = std::vector<std::string>;

struct Case {
  const char* name;
  Words given, flags;
  Words command;
};

class NormaliseArguments : public testing::TestWithParam<Case> {};

TEST_P(NormaliseArguments, TakesACommandLineApartAsArgparseDoes) {
  const NormalArguments normal = normalise_arguments(GetParam().given);

  Words command;
  if (normal.program) command.push_back(*normal.program);
  command.insert(command.end(), normal.arguments.begin(), normal.arguments.end());
  EXPECT_EQ(normal.flags, GetParam().flags);
  EXPECT_EQ(command, GetParam().command);
}

INSTANTIATE_TEST_SUITE_P(
    All, NormaliseArguments,
    testing::Values(
        Case{"Nothing", {}, {}, {}},  //
        Case{"Dashes", {"--nproc-per-node", "2", "p"}, {"--nproc-per-node", "2"}, {"p"}},
        Case{"Underscores", {"--nproc_per_node=2", "p"}, {"--nproc-per-node", "2"}, {"p"}},
        Case{"MixedSpelling", {"--nproc_per-node=2", "p"}, {"--nproc-per-node", "2"}, {"p"}},
        Case{"Beginnings",
             {"--nproc", "1", "--no_py", "--stand", "p"},
             {"--nproc-per-node", "1", "--no-python", "--standalone"},
             {"p"}},
        Case{"AWholeNameThatBeginsAnother", {"--tee=1", "p"}, {"--tee", "1"}, {"p"}},
        Case{"ShortFlags",
             {"-r", "3", "-t1", "-m", "p"},
             {"--redirects", "3", "--tee", "1", "--module"},
             {"p"}},
        Case{"ShortFlagsTogether", {"-mr", "3", "p"}, {"--module", "--redirects", "3"}, {"p"}},
        Case{"AShortFlagWithEquals", {"-t=0:3", "p"}, {"--tee", "0:3"}, {"p"}},
        Case{"FlagsAfterTheProgram",
             {"p", "--nnodes", "--", "-r", "--no-such"},
             {},
             {"p", "--nnodes", "--", "-r", "--no-such"}},
        Case{"TwoDashes", {"--role=a", "--", "-p", "--", "x"}, {"--role", "a"}, {"-p", "--", "x"}},
        Case{"NegativeNumbersAsValues", {"--node-rank", "-1", "p"}, {"--node-rank", "-1"}, {"p"}},
        Case{"EmptyValues",
             {"--role=", "--log-dir", "", "p"},
             {"--role", "", "--log-dir", ""},
             {"p"}},
        Case{"EqualsInValues", {"--rdzv-conf=a=1,b=2", "p"}, {"--rdzv-conf", "a=1,b=2"}, {"p"}},
        Case{"DashedWordsWithSpacesAsPrograms", {"-no flag", "x"}, {}, {"-no flag", "x"}}),
    [](const auto& parameter) { return parameter.param.name; });

std::string error_of(const Words& words) {
  try {
    normalise_arguments(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(NormaliseArguments, NamesWhatItDoesNotUnderstand) {
  EXPECT_EQ(error_of({"--bogus=1", "p"}), "no such flag: --bogus; see --help");
  EXPECT_EQ(error_of({"-x", "p"}), "no such flag: -x; see --help");
  EXPECT_EQ(error_of({"--duplicate", "p"}),
            "ambiguous flag: --duplicate could be --duplicate-stdout-filters, "
            "--duplicate-stderr-filters");
  EXPECT_EQ(error_of({"--standalone=1", "p"}), "--standalone takes no value: --standalone=1");
  EXPECT_EQ(error_of({"--tee"}), "--tee wants a value: WHAT");
  EXPECT_EQ(error_of({"--nnodes", "--standalone", "p"}), "--nnodes wants a value: N|MIN:MAX");
}

}  // namespace
}  // namespace shampoo::launcher::test
