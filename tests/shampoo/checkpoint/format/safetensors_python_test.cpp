// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/checkpoint/format/safetensors_python.h"

#include <gtest/gtest.h>

#include <numeric>

#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/format/safetensors_writer.h"

namespace shampoo::checkpoint::test {
namespace {

using shampoo::test::SafetensorsInPython;

TEST_F(SafetensorsInPython, ReadsWhatWasWritten) {
  const std::vector<TensorDescription> tensors{
      {"w/factor/0", Dtype::f32, {2, 3}}, {"empty", Dtype::f64, {0, 4}}, {"\u00e9", Dtype::bf16}};
  std::vector<float> w(6);
  std::iota(w.begin(), w.end(), 0.5F);
  SafetensorsWriter writer(folder_.path() / "file", tensors, {{"save", "x"}});
  writer.write(std::as_bytes(std::span(w)));
  writer.write(std::vector<std::byte>(2, std::byte{7}));
  writer.finish();

  ASSERT_EQ(run(R"(import sys, struct, safetensors
read = dict(safetensors.deserialize(open(sys.argv[1] + "/file", "rb").read()))
assert set(read) == {"w/factor/0", "empty", "\u00e9"}, read
w = read["w/factor/0"]
assert w["dtype"] in ("F32", "float32") and list(w["shape"]) == [2, 3], w
assert struct.unpack("<6f", bytes(w["data"])) == (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
assert list(read["empty"]["shape"]) == [0, 4]
assert bytes(read["\u00e9"]["data"]) == b"\x07\x07"
)"),
            0)
      << output();
}

TEST_F(SafetensorsInPython, WritesWhatIsRead) {
  ASSERT_EQ(run(R"(import sys, numpy
from safetensors.numpy import save_file
save_file({"b": numpy.array([97, 98, 99], numpy.uint8), "a": numpy.ones((1, 2)),
           "none": numpy.ones((0, 5), numpy.float32)}, sys.argv[1] + "/file", {"k": "v"})
)"),
            0)
      << output();

  const SafetensorsFile file(folder_.path() / "file");
  ASSERT_EQ(file.tensors().size(), 3);
  EXPECT_EQ(file.metadata("k"), "v");
  const TensorEntry& b = file.tensors()[file.find("b").value()];
  EXPECT_EQ(b.shape, std::vector<std::int64_t>{3});
  std::vector<std::byte> bytes(3);
  file.read(b, 0, bytes);
  EXPECT_EQ(bytes[2], std::byte{'c'});
}

}  // namespace
}  // namespace shampoo::checkpoint::test
