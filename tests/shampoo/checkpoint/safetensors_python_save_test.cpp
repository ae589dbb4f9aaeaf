// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/shampoo/checkpoint/format/safetensors_python.h"

namespace shampoo::test {
namespace {

const std::string module =
    "import pathlib, shutil, sys, numpy\nsys.dont_write_bytecode = True\n"
    "sys.path.insert(0, '" SHAMPOO_CHECKPOINT_PYTHON
    "')\nimport shampoo_checkpoint\n"
    "folder = pathlib.Path(sys.argv[1])\nroot = folder / 'root'\n";

/// Compares every tensor with FOLDER/expected/<number>, the bytes of what FOLDER/names has in that
/// line; of a symmetric matrix the rows up to the diagonal.
constexpr const char* compare = R"(
checkpoint = shampoo_checkpoint.open_checkpoint(root)
assert checkpoint.folder.name == "step-7", checkpoint.folder
found = {"user/" + name: x for name, x in checkpoint.user.items()}
found.update({"optimizer/" + name: x for name, x in checkpoint.state().items()})
names = (folder / "names").read_text().splitlines()
for number, line in enumerate(names):
    layout, name = line.split(" ", 1)
    x = found[name]
    if layout == "symmetric":
        assert (x == x.T).all(), name
        x = x[numpy.tril_indices(len(x))]
    assert x.tobytes() == (folder / "expected" / str(number)).read_bytes(), name
others = set(found) - {line.split(" ", 1)[1] for line in names}
assert not others, others
for name in checkpoint.parameters:
    rates = checkpoint.rates(name)
    assert rates["learning_rate"] == 1e-2 and rates["beta3"] is None, rates
    assert checkpoint.state()[name + "/filtered_gradient"].shape == tuple(
        checkpoint.parameters[name]["shape"]), name
)";

constexpr const char* export_again = R"(
from safetensors.numpy import load_file
import json
checkpoint = shampoo_checkpoint.open_checkpoint(root / "step-7")
expected = {"optimizer/" + name: x for name, x in checkpoint.state().items()}
one, = shampoo_checkpoint.export(checkpoint, folder / "one.safetensors", "state")
files = shampoo_checkpoint.export(checkpoint, folder / "parts", "state", 4096)
assert len(files) > 1
index = json.loads((folder / "parts/model.safetensors.index.json").read_text())
parts = {name: load_file(folder / "parts" / file)[name] for name, file in index["weight_map"].items()}
for found in (load_file(one), parts):
    assert set(found) == set(expected)
    for name, x in expected.items():
        assert found[name].shape == x.shape and (found[name] == x).all(), name
assert index["metadata"]["total_size"] == sum(x.nbytes for x in expected.values())
)";

/// Changes one byte after the other of some places; verify() has to name the file.
constexpr const char* damage = R"(
shampoo_checkpoint.open_checkpoint(root).verify()
for file in sorted((root / "step-7").iterdir()):
    text = file.read_bytes()
    for place in {3, 12, len(text) // 3, len(text) // 2, len(text) - 9}:
        changed = text[:place] + bytes([text[place] ^ 1]) + text[place + 1:]
        copy = folder / "copy"
        shutil.copytree(root / "step-7", copy)
        (copy / file.name).write_bytes(changed)
        try:
            shampoo_checkpoint.Checkpoint(copy).verify()
        except ValueError as error:
            assert file.name in str(error) or file.name == "manifest.json", error
        else:
            raise AssertionError(f"{file.name}: byte {place}")
        shutil.rmtree(copy)
)";

/// 16 tensors of 1 MiB.
constexpr const char* export_large = R"(
import os, tracemalloc
sides = [1 << 18]
tensors = {f"user/t{i}": shampoo_checkpoint.tensor_of("F32", sides, lambda i=i: numpy.full(sides, i, "f4"))
           for i in range(16)}
rows = [{"name": f"t{i}", "dtype": "F32", "shape": sides, "file": 0} for i in range(16)]
tables = {name: [] for name in ("slots", "recipes", "rates", "parameters")}
shampoo_checkpoint.write_checkpoint(root, tensors, {**tables, "user_tensors": rows})
files = os.listdir("/proc/self/fd")
checkpoint = shampoo_checkpoint.open_checkpoint(root)
kept = checkpoint.user["t3"]
assert len(os.listdir("/proc/self/fd")) == len(files)
tracemalloc.start()
shampoo_checkpoint.export(checkpoint, folder / "out.safetensors")
checkpoint.verify()
assert tracemalloc.get_traced_memory()[1] < 3 << 20, tracemalloc.get_traced_memory()
exported = shampoo_checkpoint.Shard(folder / "out.safetensors")
assert [exported[f"t{i}"][-1] for i in range(16)] == list(range(16))
)";

/// What is written fails, or is on the disk before it has its name.
constexpr const char* write_failing = R"(
import os, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def tensors(count):
    return {f"user/t{i}": shampoo_checkpoint.tensor_of("F32", [1000], lambda i=i: numpy.full(1000, i, "f4"))
            for i in range(count)}
def tables(count):
    rows = [{"name": f"t{i}", "dtype": "F32", "shape": [1000], "file": 0} for i in range(count)]
    return {"slots": [], "recipes": [], "rates": [], "parameters": [], "user_tensors": rows}
def everything():
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "output"}
def refused(kind, call, *words):
    before = everything()
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(words)
    assert everything() == before, set(everything()) ^ set(before)
def of_size(bytes, call):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, limit[1]))
    try:
        call()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)

synced, fsync, rename, replace = [], os.fsync, os.rename, os.replace
def note(file):
    synced.append(os.readlink(f"/proc/self/fd/{file}"))
    fsync(file)
def after(move):
    def moved(start, end):
        assert str(start) in synced, (start, synced)
        move(start, end)
    return moved
os.fsync, os.rename, os.replace = note, after(rename), after(replace)
shampoo_checkpoint.write_checkpoint(root, tensors(3), tables(3))
assert synced[-1] == str(root), synced
checkpoint = shampoo_checkpoint.open_checkpoint(root)
checkpoint.verify()
out = folder / "out.safetensors"
for to, shard_bytes in ((out, None), (folder / "parts", 5000)):
    shampoo_checkpoint.export(checkpoint, to, shard_bytes=shard_bytes)
    refused(OSError, lambda: of_size(2000, lambda: shampoo_checkpoint.export(
        checkpoint, to, shard_bytes=shard_bytes)), "File too large", "safetensors was written")
(folder / "link").symlink_to("out.safetensors")
shampoo_checkpoint.export(checkpoint, folder / "link")
assert (folder / "link").is_symlink() and not out.is_symlink()
os.mkfifo(folder / "pipe")
refused(ValueError, lambda: shampoo_checkpoint.export(checkpoint, folder / "pipe"), "pipe: no regular file")

other = folder / "other"
shampoo_checkpoint.write_checkpoint(other, tensors(2), tables(2))
shutil.rmtree(other / "step-0")
refused(OSError, lambda: of_size(2000, lambda: shampoo_checkpoint.write_checkpoint(
    other, tensors(2), tables(2))), "File too large", "shard-00000")
assert not list(other.iterdir()), list(other.iterdir())
)";

TEST_F(SafetensorsInPython, ReplacesAFileByAWholeOneOnly) {
  if (run("import xxhash") != 0) GTEST_SKIP() << "no xxhash in this Python";
  EXPECT_EQ(run(module + write_failing), 0) << output();
}

TEST_F(SafetensorsInPython, HoldsOneTensorAndNoFile) {
  if (run("import xxhash") != 0) GTEST_SKIP() << "no xxhash in this Python";
  EXPECT_EQ(run(module + export_large), 0) << output();
}

TEST_F(SafetensorsInPython, ReadsTheShardsOfASave) {
  const Trainee trainee = everything();
  save_first<float>(folder_.path() / "root", trainee, {.ranks = 3, .groups = 2});
  const End<float> end = train_first<float>(trainee, {.groups = 2});
  std::filesystem::create_directory(folder_.path() / "expected");
  std::ofstream names(folder_.path() / "names");
  int count = 0;
  const auto expect = [&](const std::string& name, const void* bytes, std::size_t size,
                          const std::string& layout = "whole") {
    names << layout << ' ' << name << "\n";
    std::ofstream(folder_.path() / "expected" / std::to_string(count++), std::ios::binary)
        .write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  };
  for (std::size_t t = 0; t < trainee.shapes.size(); ++t) {
    const auto& value = end.values.first[t];
    const auto& narrow = end.values.second[t];
    const std::string name = "user/tensor" + std::to_string(t);
    if (narrow.empty())
      expect(name, value.data(), value.size() * sizeof(float));
    else
      expect(name, narrow.data(), narrow.size() * sizeof(std::uint16_t));
  }
  for (const StateTensor& tensor : end.state.tensors)
    expect("optimizer/" + tensor.name(), tensor.bytes.data(), tensor.bytes.size(),
           tensor.layout == StateLayout::symmetric ? "symmetric" : "whole");
  names.close();

  EXPECT_EQ(run(module + compare), 0) << output();
  EXPECT_EQ(run(module + export_again), 0) << output();
  EXPECT_GT(count, 20);
}

constexpr const char* read_two = R"(
checkpoint = shampoo_checkpoint.open_checkpoint(root)
assert {name: row["progress"]["attempts"] for name, row in checkpoint.optimizers.items()} == \
    {"generator": 7, "critic": 2}, checkpoint.optimizers
moments = [checkpoint.slot(name + "/tensor0", "filtered_gradient") for name in ("generator", "critic")]
assert (moments[0] != moments[1]).any()
assert set(checkpoint.state()) >= {"generator/tensor1/filtered_gradient", "critic/tensor1/filtered_gradient"}
checkpoint.manifest["required_features"] = ["optimizers", "more"]
(root / "step-7" / "manifest.json").write_text(shampoo_checkpoint.json.dumps(checkpoint.manifest))
try:
    shampoo_checkpoint.Checkpoint(root / "step-7")
except ValueError as error:
    assert "['more']" in str(error), error
else:
    raise AssertionError("an unknown feature")
)";

TEST_F(SafetensorsInPython, ReadsTheSaveOfSeveralOptimizers) {
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> generator(communicator, small, {}), critic(communicator, small, {});
    generator.train(0, steps_before);
    critic.train(0, 2);
    save({{"generator", *generator.optimizer}, {"critic", *critic.optimizer}},
         folder_.path() / "root");
  });
  EXPECT_EQ(run(module + read_two), 0) << output();
}

TEST_F(SafetensorsInPython, FindsEveryByteThatChanged) {
  if (run("import xxhash") != 0) GTEST_SKIP() << "no xxhash in this Python";
  save_first<float>(folder_.path() / "root", everything(), {.ranks = 2});
  EXPECT_EQ(run(module + damage), 0) << output();
  std::filesystem::create_directory(folder_.path() / "root/step-8");
  std::ofstream(folder_.path() / "root/step-8/manifest.json") << "{";
  EXPECT_EQ(run(module + "assert [row['step'] for row in "
                         "shampoo_checkpoint.list_checkpoints(root)] == [7]\n"),
            0)
      << output();
}

/// A directory with a good checkpoint, one that is cut short and one whose manifest nobody writes.
constexpr const char* commands = R"(
import os, subprocess
def asked(*arguments):
    done = subprocess.run([sys.executable, shampoo_checkpoint.__file__, *map(str, arguments)],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr
assert asked("verify", root)[0] == 0
shutil.copytree(root / "step-7", root / "step-8")
shard = next((root / "step-8").glob("*.safetensors"))
os.truncate(shard, shard.stat().st_size - 1)
(root / "step-9").mkdir()
os.mkfifo(root / "step-9" / "manifest.json")
code, lines, _ = asked("list", root)
assert code == 0 and lines.split() == ["step", "7", str(root / "step-7")], lines
code, lines, _ = asked("verify", root)
right, cut, pipe = lines.splitlines()
assert code == 1 and right == f"{root / 'step-7'}: all checksums are right", lines
assert cut.startswith(f"{root / 'step-8'}: BROKEN: ") and shard.name in cut, cut
assert pipe == f"{root / 'step-9'}: BROKEN: {root / 'step-9' / 'manifest.json'}: no such regular file", pipe
assert [asked("verify", root / f"step-{step}")[0] for step in (7, 8, 9)] == [0, 1, 1]
for command in ("list", "verify"):
    code, lines, errors = asked(command, folder / "nowhere")
    assert code == 2 and not lines, command
    assert errors == f"shampoo_checkpoint: {folder / 'nowhere'}: no such folder\n", errors
assert asked("list", root / "step-7")[0] == 2
)";

TEST_F(SafetensorsInPython, EndsAsTheCommandDoes) {
  if (run("import xxhash") != 0) GTEST_SKIP() << "no xxhash in this Python";
  save_first<float>(folder_.path() / "root", small, {.ranks = 2});
  EXPECT_EQ(run(module + commands), 0) << output();
}

}  // namespace
}  // namespace shampoo::test
