// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/shampoo/checkpoint/format/safetensors_python.h"

namespace shampoo::test {
namespace {

/// The first example in Python of shampoo/checkpoint/README.md.
std::string reader() {
  const std::string text = content_of(SHAMPOO_CHECKPOINT_README);
  const std::string begin = "```python\n";
  const std::size_t first = text.find(begin) + begin.size();
  return text.substr(first, text.find("```", first) - first);
}

/// Compares every tensor with FOLDER/expected/<number>, the bytes of what FOLDER/names has in that
/// line, and the tensors of the manifest with those of the files.
constexpr const char* compare = R"(
import sys
folder = pathlib.Path(sys.argv[1])
manifest, files = read_checkpoint(folder / "root/step-7")
listed = [[] for file in files]
for tensor in manifest["user_tensors"]:
    listed[tensor["file"]].append("user/" + tensor["name"])
for parameter in manifest["parameters"]:
    slots = [manifest["slots"][s] for s in parameter["slots"]]
    assert len(list(blocks(parameter))) == len(parameter["files"]), parameter
    for offset, extent, file in blocks(parameter):
        for slot in slots:
            name = "optimizer/" + parameter["name"] + "/" + slot["name"]
            if slot["layout"] != "elements" or extent != parameter["merged_shape"]:
                name += "/" + ".".join(map(str, offset))
            listed[file].append(name)
            tensor = files[file][name]
            if slot["layout"] == "elements":
                assert list(tensor.shape) == extent, name
            else:
                n = extent[slot["dimension"]]
                assert symmetric(tensor).shape == (n, n), name
for names, tensors in zip(listed, files):
    assert sorted(names) == sorted(tensors), "other tensors in a file"
for rates in manifest["rates"]:
    assert rates["learning_rate"] == 1e-2 and rates["beta3"] is None, rates
tensors = {name: tensor for file in files for name, tensor in file.items()}
names = (folder / "names").read_text().splitlines()
for number, name in enumerate(names):
    assert tensors[name].tobytes() == (folder / "expected" / str(number)).read_bytes(), name
print(len(names), "of", len(tensors), "tensors in", len(manifest["files"]), "files")
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
    const std::string name = "user/tensor" + std::to_string(t);
    if (narrow.empty())
      expect(name, value.data(), value.size() * sizeof(float));
    else
      expect(name, narrow.data(), narrow.size() * sizeof(std::uint16_t));
  }
  for (const StateTensor& tensor : end.state.tensors)
    if (tensor.layout == StateLayout::symmetric)
      expect("optimizer/" + tensor.name(), tensor.bytes.data(), tensor.bytes.size());
  names.close();

  EXPECT_EQ(run(reader() + compare), 0) << output();
  EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace shampoo::test
