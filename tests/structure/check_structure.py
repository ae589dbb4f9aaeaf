# SPDX-License-Identifier: Apache-2.0
"""Checks where files lie and what they include, and prints a line for each violation:
RULE: FILE:LINE: what is wrong.
    check_structure.py ROOT PUBLIC_HEADER...
"""
import collections
import pathlib
import re
import sys

LAYERS = {
    "grouping": ("grouping",),
    "kernels": ("kernels",),
    "distributor": ("grouping", "kernels", "distributor"),
    "shampoo": ("grouping", "kernels", "distributor", "shampoo"),
}
FOLDERS = (*LAYERS, "examples", "tests")

# Inside a layer: files of the folder may include nothing of the others.
INNER_ARROWS = {
    "kernels/rules": ("kernels/solvers", "kernels/cpu", "kernels/cuda"),
    "kernels/solvers": ("kernels/cpu", "kernels/cuda"),
    "kernels/cpu": ("kernels/cuda",),
    "kernels/cuda": ("kernels/cpu",),
    "distributor/system": (
        "distributor/launcher", "distributor/rendezvous", "distributor/store",
        "distributor/transports"),
    "distributor/store": (
        "distributor/launcher", "distributor/rendezvous", "distributor/transports"),
    "distributor/transports": ("distributor/launcher",),
    "distributor/rendezvous": ("distributor/launcher",),
    "shampoo": ("distributor/launcher", "distributor/store", "kernels/cpu", "kernels/cuda"),
    "shampoo/preconditioners": (
        "shampoo/averaging", "shampoo/protocol", "shampoo/state", "shampoo/checkpoint"),
    "shampoo/averaging": (
        "shampoo/preconditioners", "shampoo/protocol", "shampoo/state", "shampoo/checkpoint"),
    "shampoo/gradients": ("shampoo/protocol", "shampoo/state", "shampoo/checkpoint"),
    "shampoo/validation": ("shampoo/protocol", "shampoo/state", "shampoo/checkpoint"),
    "shampoo/routing": (
        "shampoo/update", "shampoo/protocol", "shampoo/state", "shampoo/checkpoint"),
    "shampoo/update": ("shampoo/protocol", "shampoo/checkpoint"),
    "shampoo/protocol": ("shampoo/state", "shampoo/checkpoint"),
    "shampoo/state": ("shampoo/checkpoint",),
}
# The headers that hold the optimizer; nothing below the face may need them.
OPTIMIZER = ("shampoo/optimizer.h", "shampoo/shampoo.h")

# What users include by name; every other public header has to be reachable from these.
USER_HEADERS = (
    "shampoo/c.h",
    "shampoo/shampoo.h",
    "distributor/transports/gloo/gloo.h",
    "distributor/transports/mpi/mpi.h",
    "distributor/transports/nccl/nccl.h",
)
# Installed for those who have the vendor's header too, never included by another public header.
VENDOR_HEADERS = {
    "distributor/transports/mpi/mpi_interop.h": r"mpi\.h",
    "distributor/transports/nccl/nccl_interop.h": r"(nccl|cuda_runtime_api)\.h",
}
VENDORS = re.compile(
    r"blas|lapack|mpi|gloo|cuda|cublas|cusolver|nccl|dlfcn|immintrin|nlohmann|xxh|CLI/", re.I)
MOST_PUBLIC_HEADERS = 27
MOST_FILES = 30

# The same file name in several folders: one idea, once per backend or transport.
PER_BACKEND = ("kernels/cpu", "kernels/cuda")
PER_TRANSPORT = "distributor/transports/"
REPEATED_NAMES = ("main", "step_guard")

# State and checkpoints know layouts of slots, not what a preconditioner keeps in them.
STATE_FOLDERS = ("shampoo/state", "shampoo/checkpoint")
STATE_WORDS = {"factor", "root", "triangle", "pair"}
PACKED_TRIANGLE = ("shampoo/state/packed_triangle.h", "shampoo/state/packed_triangle.cpp")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
# As public headers and examples name the headers of the layers: "shampoo/kernels/types.h".
BELOW_FACE = re.compile(r"^shampoo/((?:grouping|kernels|distributor)/)")
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
VARIANT = re.compile(
    r"using\s+(?:Preconditioner|Diagonal|(?:Value)?Averaging)\s*=\s*std::variant<([^;]*)>\s*;")


def inside(name, folder):
    return name.startswith(folder.rstrip("/") + "/")


class Tree:
    """The sources below a root, and what was found in them."""

    def __init__(self, root, public_headers):
        self.findings = []
        self.lines = {}
        for folder in FOLDERS:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in (".h", ".cpp", ".cu"):
                    text = path.read_text(encoding="utf-8")
                    self.lines[path.relative_to(root).as_posix()] = text.splitlines()
        # The build has links to them.
        self.public = {path.resolve().relative_to(root.resolve()).as_posix()
                       for path in public_headers}

    def report(self, rule, name, line, message):
        self.findings.append((rule, name, line, message))

    def includes(self, name):
        """(number of the line, what stands in quotes or None, what stands in brackets or None)"""
        for number, line in enumerate(self.lines.get(name, ()), 1):
            if match := INCLUDE.match(line):
                yield number, match[1] and BELOW_FACE.sub(r"\1", match[1]), match[2]

    def library(self):
        return (name for name in self.lines if name.split("/")[0] in LAYERS)


def layers(tree):
    for name in tree.library():
        layer = name.split("/")[0]
        for number, ours, theirs in tree.includes(name):
            if ours and ours.split("/")[0] not in LAYERS[layer]:
                tree.report("layers", name, number, f"{layer} may not include {ours}")
            if theirs and "/" in theirs and theirs.split("/")[0] in FOLDERS:
                tree.report("layers", name, number, f"<{theirs}> is ours and belongs in quotes")


def inner_arrows(tree):
    for name in tree.library():
        is_face = name.startswith("shampoo/") and name.count("/") == 1
        for number, ours, _ in tree.includes(name):
            if not ours:
                continue
            if ours in OPTIMIZER and not is_face:
                tree.report("inner arrows", name, number, f"only the face may include {ours}")
            for folder, forbidden in INNER_ARROWS.items():
                for other in forbidden:
                    if inside(name, folder) and inside(ours, other):
                        tree.report("inner arrows", name, number,
                                    f"{folder}/ may not include {ours}")


def public_headers(tree):
    for name in (*sorted(tree.public), *VENDOR_HEADERS):
        for number, ours, theirs in tree.includes(name):
            if ours and ours not in tree.public:
                tree.report("public headers", name, number, f"{ours} is not public")
            line = tree.lines[name][number - 1]
            if ours and '"shampoo/' not in line:
                tree.report("public headers", name, number,
                            f"{ours} has to be included as shampoo/{ours}")
            if theirs and VENDORS.search(theirs) and not (
                    name in VENDOR_HEADERS and re.fullmatch(VENDOR_HEADERS[name], theirs)):
                tree.report("public headers", name, number, f"<{theirs}> is a vendor's header")


def reachable_headers(tree):
    reached, next_ones = set(), list(USER_HEADERS)
    while next_ones:
        name = next_ones.pop()
        if name not in reached:
            reached.add(name)
            next_ones += [ours for _, ours, _ in tree.includes(name) if ours]
    for name in sorted(tree.public - reached):
        tree.report("reachable headers", name, 1, "public, but no user's header includes it")
    for name in USER_HEADERS:
        if name not in tree.public:
            tree.report("reachable headers", name, 1, "a user's header, but not public")


def header_count(tree):
    if len(tree.public) > MOST_PUBLIC_HEADERS:
        tree.report("header count", "shampoo/shampoo.h", 1,
                    f"{len(tree.public)} public headers, at most {MOST_PUBLIC_HEADERS}: "
                    + " ".join(sorted(tree.public)))


def folder_size(tree):
    sizes = collections.Counter(name.rpartition("/")[0] for name in tree.lines)
    for folder, size in sorted(sizes.items()):
        if size > MOST_FILES:
            tree.report("folder size", folder, 1, f"{size} source files, at most {MOST_FILES}")


def scope(name):
    """Names are unique inside the library, inside the tests, and inside every example."""
    top, _, rest = name.partition("/")
    if top == "examples":
        return name.rpartition("/")[0]
    return "tests" if top == "tests" else "library"


def idea(name):
    """The folder, or the one that stands for a facet with its backends or for all transports."""
    place = name[len("tests/"):] if name.startswith("tests/") else name
    if any(inside(place, folder) for folder in PER_BACKEND) or re.fullmatch(
            r"kernels/\w+\.(h|cpp|cu)", place):
        return "kernels of a backend"
    return "a transport" if place.startswith(PER_TRANSPORT) else name.rpartition("/")[0]


def repeated_names(tree):
    places = collections.defaultdict(list)
    for name in tree.lines:
        stem = name.rpartition("/")[2].partition(".")[0]
        if stem not in REPEATED_NAMES:
            places[scope(name), stem].append(name)
    for names in places.values():
        if len({idea(name) for name in names}) > 1:
            for name in names[1:]:
                tree.report("repeated names", name, 1, f"the name of {names[0]} too")


def state_words(tree):
    for name, lines in tree.lines.items():
        if name in PACKED_TRIANGLE or not any(inside(name, folder) for folder in STATE_FOLDERS):
            continue
        for number, line in enumerate(lines, 1):
            if (match := INCLUDE.match(line)) and match[1] in PACKED_TRIANGLE:
                continue
            line = re.sub(r"std::(make_)?pair\b|<root>", "", line)
            words = {word.lower() for word in WORD.findall(line)}
            for word in sorted(STATE_WORDS & {*words, *(word.rstrip("s") for word in words)}):
                tree.report("state words", name, number, f"only packed_triangle.* says '{word}'")


def kinds(tree):
    names = set()
    for lines in tree.lines.values():
        for alternatives in VARIANT.findall("\n".join(lines)):
            names |= set(re.findall(r"\w+", alternatives))
    if not names:
        tree.report("kinds", "shampoo", 1, "no variant Preconditioner, Diagonal or Averaging")
        return
    uses = re.compile(r"std::get(?:_if)?<\s*(?:const\s+)?(?:\w+::)*(" + "|".join(names) + r")\b")
    for name in tree.library():
        pair = "\n".join(line for other in (name, str(pathlib.PurePosixPath(name).with_suffix(".h")))
                         for line in tree.lines.get(other, ()))
        for number, line in enumerate(tree.lines[name], 1):
            for kind in uses.findall(line):
                if not re.search(rf"struct {kind}\b[^;]*{{", pair):
                    tree.report("kinds", name, number, f"std::get of {kind} outside its own file")


RULES = (layers, inner_arrows, public_headers, reachable_headers, header_count, folder_size,
         repeated_names, state_words, kinds)


def check(root, headers):
    """Everything that is wrong below a root, as (rule, file, line, message)."""
    root = pathlib.Path(root)
    tree = Tree(root, [pathlib.Path(header) for header in headers])
    for rule in RULES:
        rule(tree)
    return tree.findings


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    findings = check(sys.argv[1], sys.argv[2:])
    for rule, name, line, message in findings:
        print(f"{rule}: {name}:{line}: {message}")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
