// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/shampoo/checkpoint/safetensors_python.h"

namespace shampoo::test {
namespace {

/// Puts every tensor of a checkpoint together from its shards, by the manifest, and compares it
/// with FOLDER/expected/<number>, the bytes of what FOLDER/names has in that line.
constexpr const char* compare = R"(import json, sys, numpy
from pathlib import Path
from safetensors import deserialize
folder = Path(sys.argv[1])
root = folder / "root/step-7"
manifest = json.loads((root / "manifest.json").read_text())
types = {"F64": "<f8", "F32": "<f4", "BF16": "<u2"}
sizes = {}
shards = {}
for file in manifest["files"]:
    data = (root / file["name"]).read_bytes()
    assert len(data) == file["bytes"], file
    shards[file["name"]] = dict(deserialize(data))
count = sum(len(shard) for shard in shards.values())
whole = {}
for tensor in manifest["tensors"]:
    made = whole[tensor["name"]] = numpy.zeros(tensor["shape"], types[tensor["dtype"]])
    for piece in tensor["pieces"]:
        saved = shards[piece["file"]].pop(piece["key"])
        assert list(saved["shape"]) == piece["extent"], piece
        part = numpy.frombuffer(bytes(saved["data"]), made.dtype).reshape(piece["extent"])
        box = tuple(slice(o, o + e) for o, e in zip(piece["offset"], piece["extent"]))
        made[box] = part
assert not any(shards.values()), "the manifest does not name " + str(shards)
names = (folder / "names").read_text().splitlines()
for number, name in enumerate(names):
    assert whole[name].tobytes() == (folder / "expected" / str(number)).read_bytes(), name
print(len(names), "tensors in", count, "pieces of", len(manifest["files"]), "files")
)";

TEST_F(SafetensorsInPython, ReadsTheShardsOfASave) {
  const Trainee trainee = everything();
  save_first<float>(folder_.path() / "root", trainee, {.ranks = 3, .groups = 2});
  const End<float> end = train_first<float>(trainee, {.groups = 2});
  std::filesystem::create_directory(folder_.path() / "expected");
  std::ofstream names(folder_.path() / "names");
  int count = 0;
  const auto expect = [&](const std::string& name, const void* bytes, std::size_t size) {
    names << name << "\n";
    std::ofstream(folder_.path() / "expected" / std::to_string(count++), std::ios::binary)
        .write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  };
  for (std::size_t t = 0; t < trainee.shapes.size(); ++t) {
    const auto& value = end.values.first[t];
    const auto& narrow = end.values.second[t];
    const std::string name = "extra/tensor" + std::to_string(t);
    if (narrow.empty())
      expect(name, value.data(), value.size() * sizeof(float));
    else
      expect(name, narrow.data(), narrow.size() * sizeof(std::uint16_t));
  }
  for (const StateTensor& tensor : end.state.tensors)
    if (tensor.layout == StateLayout::symmetric)
      expect("optimizer/" + tensor.name(), tensor.bytes.data(), tensor.bytes.size());
  names.close();

  EXPECT_EQ(run(compare), 0) << output();
  EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace shampoo::test
