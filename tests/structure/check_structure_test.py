# SPDX-License-Identifier: Apache-2.0
"""Plants one violation after the other and fails unless check_structure.py names rule and file."""
import pathlib
import tempfile
import unittest

import check_structure

# A tree without a violation: every user's header, and a variant of kinds.
HEALTHY = {
    "shampoo/c.h": [],
    "shampoo/shampoo.h": ['#include "shampoo/recipe.h"'],
    "shampoo/optimizer.h": ["#pragma once"],
    "shampoo/recipe.h": ["struct Adam {};", "struct Sign {};",
                         "using Preconditioner = std::variant<Adam,", "    Sign>;"],
    "distributor/transports/gloo/gloo.h": [],
    "distributor/transports/mpi/mpi.h": [],
    "distributor/transports/mpi/mpi_interop.h": ["#include <mpi.h>"],
    "distributor/transports/nccl/nccl.h": [],
    "distributor/transports/nccl/nccl_interop.h": ["#include <nccl.h>", "#include <cuda_runtime_api.h>"],
}
PRIVATE = ("shampoo/optimizer.h", *check_structure.VENDOR_HEADERS)


class Planted(unittest.TestCase):
    def findings(self, files, public=()):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, lines in {**HEALTHY, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("\n".join(lines) + "\n")
            headers = [root / name for name in HEALTHY if name not in PRIVATE]
            return check_structure.check(root, headers + [root / name for name in public])

    def assert_allowed(self, files, public=()):
        self.assertEqual(self.findings(files, public), [])

    def assert_found(self, rule, name, line, files, public=()):
        self.assertEqual([found[:3] for found in self.findings(files, public)], [(rule, name, line)])

    def assert_include(self, rule, name, include):
        """The second line of a file includes something."""
        files = {name: [*HEALTHY.get(name, []), include]}
        if rule:
            self.assert_found(rule, name, len(files[name]), files)
        else:
            self.assert_allowed(files)

    def test_a_healthy_tree(self):
        self.assert_allowed({})

    def test_layers(self):
        for name, include in (
                ("kernels/a.h", "#include <vector>"),
                ("kernels/a.h", '#include "kernels/b.h"'),
                ("distributor/a.h", '#include "grouping/blocks.h"'),
                ("shampoo/a.cu", '#include "distributor/communicator.h"'),
                ("shampoo/a.cu", '#include "shampoo/distributor/communicator.h"')):
            self.assert_include(None, name, include)
        for name, include in (
                ("grouping/a.h", '#include "kernels/types.h"'),
                ("grouping/a.h", '#include "shampoo/kernels/types.h"'),
                ("kernels/a.cu", '#include "grouping/blocks.h"'),
                ("distributor/a.cpp", '  #  include "shampoo/recipe.h"'),
                ("shampoo/a.h", '#include "tests/support/near.h"'),
                ("shampoo/a.h", '#include "recipe.h"'),
                ("grouping/a.h", "#include <shampoo/shampoo.h>")):
            self.assert_include("layers", name, include)

    def test_inner_arrows(self):
        self.assert_include(None, "shampoo/optimizer.cpp", '#include "shampoo/optimizer.h"')
        self.assert_include(None, "tests/shampoo/a_test.cpp", '#include "shampoo/optimizer.h"')
        for name, include in (
                ("shampoo/update/a.h", '#include "shampoo/optimizer.h"'),
                ("shampoo/state/a.cpp", '#include "shampoo/shampoo.h"'),
                ("shampoo/update/a.h", '#include "kernels/cuda/device.h"'),
                ("shampoo/preconditioners/a.cpp", '#include "shampoo/state/b.h"'),
                ("kernels/solvers/a.cpp", '#include "kernels/cpu/eigen.h"'),
                ("distributor/store/a.h", '#include "distributor/transports/mpi/mpi.h"')):
            self.assert_include("inner arrows", name, include)

    def test_public_headers(self):
        for include in ('#include "shampoo/kernels/not_public.h"', "#include <cblas.h>", "#include <mpi.h>",
                        "#include <gloo/context.h>", "#include <cuda_runtime.h>",
                        "#include <nlohmann/json.hpp>",
                        '#include "shampoo/distributor/transports/mpi/mpi_interop.h"',
                        '#include "distributor/transports/mpi/mpi.h"'):
            self.assert_include("public headers", "shampoo/recipe.h", include)
        for name, include in (("mpi/mpi_interop.h", "#include <gloo/context.h>"),
                              ("nccl/nccl_interop.h", "#include <mpi.h>"),
                              ("mpi/mpi_interop.h", "#include <nccl.h>")):
            self.assert_include("public headers", "distributor/transports/" + name, include)

    def test_reachable_headers(self):
        self.assert_found("reachable headers", "kernels/a.h", 1, {"kernels/a.h": []}, ["kernels/a.h"])

    def test_header_count(self):
        names = [f"kernels/header_{i}.h" for i in range(22)]
        files = {name: [] for name in names}
        files["shampoo/recipe.h"] = HEALTHY["shampoo/recipe.h"] + [f'#include "shampoo/{name}"' for name in names]
        # With the user's six.
        self.assert_allowed({**files, "shampoo/recipe.h": files["shampoo/recipe.h"][:-1]}, names[:-1])
        self.assert_found("header count", "shampoo/shampoo.h", 1, files, names)

    def test_folder_size(self):
        self.assert_allowed({f"tests/many/f{i}.cpp": [] for i in range(30)})
        self.assert_found("folder size", "tests/many", 1,
                          {f"tests/many/f{i}.{'cpp' if i % 2 else 'cu'}": [] for i in range(31)})

    def test_repeated_names(self):
        for first, second in (("kernels/cpu/a.cpp", "kernels/cuda/gemm/a.cu"),
                              ("distributor/transports/mpi/a.h", "distributor/transports/nccl/a.h"),
                              ("tests/kernels/cpu/a.h", "tests/kernels/cuda/a.h"),
                              ("kernels/a.h", "kernels/cuda/a.cpp"),
                              ("kernels/a.cpp", "tests/kernels/a.cpp"),
                              ("examples/one/a.h", "examples/two/a.h"),
                              ("distributor/main.cpp", "shampoo/checkpoint/main.cpp")):
            self.assert_allowed({first: [], second: []})
        for first, second in (("grouping/a.h", "kernels/a.h"),
                              ("kernels/cpu/a.cpp", "kernels/solvers/a.cpp"),
                              ("shampoo/a.h", "shampoo/checkpoint/a.cpp"),
                              ("tests/grouping/a_test.cpp", "tests/kernels/a_test.cpp")):
            self.assert_found("repeated names", second, 1, {first: [], second: []})

    def test_state_words(self):
        for line in ("std::pair<int, int> both;", "int repair, impairs, rootless;",
                     '#include "shampoo/state/packed_triangle.h"'):
            self.assert_allowed({"shampoo/state/a.cpp": [line]})
        self.assert_allowed({"shampoo/state/packed_triangle.h": ["// a pair of triangles"]})
        for line in ("// The factors.", "int root_of(int n);", "RootInverse kind;", "int pairs_;",
                     '#include "shampoo/update/triangle.h"'):
            self.assert_found("state words", "shampoo/checkpoint/format/a.h", 2,
                              {"shampoo/checkpoint/format/a.h": ["", line]})

    def test_kinds(self):
        self.assert_allowed({"shampoo/preconditioners/sign.h": ["struct Sign {", "};"],
                             "shampoo/preconditioners/sign.cpp": ["std::get<Sign>(kind);"],
                             "shampoo/a.cpp": ["std::get<Adamant>(kind);", "std::get<0>(both);"]})
        for line in ("std::get<Adam>(kind);", "std::get_if< const shampoo::Sign>(&kind);"):
            self.assert_found("kinds", "shampoo/update/a.cpp", 1, {"shampoo/update/a.cpp": [line]})
        self.assert_found("kinds", "shampoo", 1, {"shampoo/recipe.h": []})


if __name__ == "__main__":
    unittest.main()
