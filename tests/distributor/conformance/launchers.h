// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "distributor/system/environment.h"

namespace shampoo::launcher::test {

/// A launcher, and where it differs from others. What a test expects of all is in that test.
struct TestedLauncher {
  std::string name;
  /// Its path, and flags without which it does not work here. Empty: not on this machine.
  std::vector<std::string> command;
  /// Why it is not on this machine.
  std::string absence;
  /// What its workers have beyond what all launchers set.
  Environment own_variables;
  /// The value of --redirects for as many streams as work, and their files.
  std::string redirects;
  std::vector<std::string> redirected;
  /// Takes a free port where none is given.
  bool finds_a_port = true;
  /// No key of an earlier attempt is left in the store of the next one.
  bool fresh_store = true;
  /// An error file that is no JSON costs the restarts that are left.
  bool breaks_on_broken_report = false;
  /// Workers outlive it when it is killed.
  bool leaves_orphans = false;
  /// A signal that comes while it starts workers does not reach them.
  bool loses_early_signals = false;
  /// When a worker fails, other nodes go on until they notice by themselves.
  bool nodes_fail_alone = false;
};

/// For GoogleTest.
void PrintTo(const TestedLauncher& launcher, std::ostream* out);

/// shampoorun and torchrun: that of the virtual environment whose Python SHAMPOO_TORCH_PYTHON
/// names, or else that of Debian 12. Their names do not depend on what is here.
std::vector<TestedLauncher> tested_launchers();

/// The Python that SHAMPOO_TORCH_PYTHON names; empty where that is not set.
std::string python_of_environment();

/// That of Debian, if it has PyTorch; otherwise empty.
std::string python_of_debian();

}  // namespace shampoo::launcher::test
