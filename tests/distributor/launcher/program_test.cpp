// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "distributor/launcher/worker_setup.h"

namespace shampoo::launcher::test {

namespace {

using Words = std::vector<std::string>;

Words command(const std::string& program, Runner runner = Runner::automatic,
              const Words& arguments = {}, const Environment& environment = {}) {
  LaunchOptions options;
  options.program = program;
  options.runner = runner;
  options.arguments = arguments;
  return worker_command(options, 3, environment);
}

TEST(Programs, AreExecutedAsTheyAre) {
  EXPECT_EQ(command("tool", Runner::automatic, {"a", "--rank=${local_rank}"}),
            (Words{"tool", "a", "--rank=3"}));
  EXPECT_EQ(command("script.py", Runner::direct), (Words{"script.py"}));
}

TEST(Programs, InPythonRunUnbuffered) {
  EXPECT_EQ(command("script.py", Runner::automatic, {"x"}),
            (Words{"python3", "-u", "script.py", "x"}));
  EXPECT_EQ(command("package.main", Runner::module),
            (Words{"python3", "-u", "-m", "package.main"}));
  EXPECT_EQ(command("plain", Runner::python), (Words{"python3", "-u", "plain"}));
  EXPECT_EQ(command("script.py", Runner::automatic, {}, {{"PYTHON_EXEC", "/opt/python"}}).front(),
            "/opt/python");
}

TEST(LocalRanks, ReplaceTheirPlaceholdersOnly) {
  const std::pair<const char*, const char*> cases[] = {{"${local_rank}", "3"},
                                                       {"a$local_rank.b", "a3.b"},
                                                       {"$local_ranks", "$local_ranks"},
                                                       {"$$", "$"},
                                                       {"$$local_rank", "$local_rank"},
                                                       {"$$$local_rank", "$3"},
                                                       {"${local_rank", "${local_rank"},
                                                       {"${ local_rank}", "${ local_rank}"},
                                                       {"${other}$5", "${other}$5"},
                                                       {"$", "$"},
                                                       {"", ""},
                                                       {"100%", "100%"}};
  for (const auto& [given, expected] : cases) EXPECT_EQ(with_local_rank(given, 3), expected);
}

}  // namespace
}  // namespace shampoo::launcher::test
