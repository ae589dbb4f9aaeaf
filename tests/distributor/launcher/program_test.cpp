// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/program.h"

#include <gtest/gtest.h>

#include "distributor/launcher/template_text.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::launcher::test {

using shampoo::test::TemporaryFolder;
using shampoo::test::write_file;
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class Programs : public testing::Test {
 protected:
  Programs() {
    make("tool", fs::perms::owner_all);
    make("plain", fs::perms::owner_read);
    make("script.py", fs::perms::owner_read);
    make("python3", fs::perms::owner_all);
    make("other", fs::perms::owner_all);
    environment_["PATH"] = "/nowhere:" + folder_.path().string();
  }

  void make(const char* name, fs::perms permissions) {
    fs::permissions(write_file(path(name), "#!/bin/sh\n"), permissions);
  }

  std::string path(const char* name) const { return folder_.path() / name; }

  Program start(const std::string& program, Runner runner = Runner::automatic,
                const Words& arguments = {}) {
    LaunchOptions options;
    options.program = program;
    options.runner = runner;
    options.arguments = arguments;
    return worker_program(options, 3, environment_);
  }

  std::string error_of(const std::string& program, Runner runner = Runner::automatic) {
    try {
      start(program, runner);
    } catch (const MissingProgram& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  Environment environment_;
};

TEST_F(Programs, AreLookedForInPath) {
  const Program program = start("tool", Runner::automatic, {"a", "--rank=${local_rank}"});

  EXPECT_EQ(program.path, path("tool"));
  EXPECT_EQ(program.arguments, (Words{"tool", "a", "--rank=3"}));
}

TEST_F(Programs, WithASlashAreTakenAsTheyAre) { EXPECT_EQ(start(path("tool")).path, path("tool")); }

TEST_F(Programs, InPythonRunUnbuffered) {
  const Program program = start(path("script.py"), Runner::automatic, {"x"});

  EXPECT_EQ(program.path, path("python3"));
  EXPECT_EQ(program.arguments, (Words{"python3", "-u", path("script.py"), "x"}));
  EXPECT_EQ(start("package.main", Runner::module).arguments,
            (Words{"python3", "-u", "-m", "package.main"}));
  EXPECT_EQ(start(path("plain"), Runner::python).path, path("python3"));
}

TEST_F(Programs, InPythonFollowPythonExec) {
  environment_["PYTHON_EXEC"] = path("other");
  EXPECT_EQ(start(path("script.py")).path, path("other"));
}

TEST_F(Programs, AreNeverPythonWhereThatIsRuledOut) {
  make("script.py", fs::perms::owner_all);
  EXPECT_EQ(start(path("script.py"), Runner::direct).path, path("script.py"));
}

TEST_F(Programs, ThatAreMissingAreNamed) {
  EXPECT_EQ(error_of("/nowhere/tool"), "there is no /nowhere/tool");
  EXPECT_EQ(error_of(path("plain")), path("plain") + " may not be executed");
  EXPECT_EQ(error_of("plain"), "no program plain in PATH");
  EXPECT_EQ(error_of("gone.py"), "there is no gone.py");
  EXPECT_EQ(error_of(folder_.path()), folder_.path().string() + " may not be executed");
  EXPECT_EQ(error_of("script.py", Runner::direct), "no program script.py in PATH");
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
