// SPDX-License-Identifier: Apache-2.0
// A file of safetensors. An input that begins with 'r' is such a file as it is; any other is two
// bytes, the size of the data, and a header.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <span>
#include <string>

#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint_directory.h"
#include "tests/fuzz/target.h"

namespace {

using namespace shampoo;
using namespace shampoo::checkpoint;
using fuzz::require;

/// One file that is written over and over, and gone when the process ends by itself.
class ScratchFile {
 public:
  ScratchFile() {
    std::string pattern = std::filesystem::temp_directory_path() / "safetensors_fuzz_XXXXXX";
    descriptor_ = ::mkstemp(pattern.data());
    require(descriptor_ >= 0);
    path_ = pattern;
  }
  ~ScratchFile() {
    ::unlink(path_.c_str());
    ::close(descriptor_);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::filesystem::path& fill(const std::string& content) {
    require(::ftruncate(descriptor_, 0) == 0);
    require(::pwrite(descriptor_, content.data(), content.size(), 0) ==
            static_cast<ssize_t>(content.size()));
    return path_;
  }

 private:
  int descriptor_ = -1;
  std::filesystem::path path_;
};

std::string file_from(std::span<const std::uint8_t> input) {
  if (!input.empty() && input[0] == 'r') return {input.begin() + 1, input.end()};
  if (input.size() < 2) return {};
  const std::size_t data = input[0] | static_cast<std::size_t>(input[1]) << 8;
  const std::size_t length = input.size() - 2;
  std::string file;
  for (int shift = 0; shift < 64; shift += 8) file += static_cast<char>(length >> shift & 0xff);
  return file.append(input.begin() + 2, input.end()).append(data, 'd');
}

/// What a file that is accepted promises.
void examine(const SafetensorsFile& file) {
  std::set<std::string> names;
  std::uint64_t end = 0;
  std::array<std::byte, 64> bytes{};
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const TensorEntry& tensor = file.tensors()[i];
    require(tensor.begin == end && tensor.begin <= tensor.end);
    require(bytes_of(tensor.dtype, tensor.shape) == tensor.end - tensor.begin);
    require(names.insert(tensor.name).second);
    require(file.find(tensor.name) == i);
    end = tensor.end;
    const std::uint64_t size = tensor.end - tensor.begin;
    const auto part = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), size));
    file.read(tensor, size - part.size(), part);
  }
  require(file.data_begin() + end == file.bytes());
  require(!file.find("\xff").has_value());
  file.metadata("format");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static ScratchFile scratch;
  try {
    examine(SafetensorsFile(scratch.fill(file_from({data, size}))));
  } catch (const CheckpointError&) {
  }
  return 0;
}
