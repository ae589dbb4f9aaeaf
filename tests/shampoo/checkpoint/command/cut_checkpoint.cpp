// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/checkpoint/command/cut_checkpoint.h"

#include <array>

#include "shampoo/checkpoint/format/safetensors_writer.h"
#include "shampoo/checkpoint/save.h"
#include "shampoo/checkpoint/verified_file.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::command::test {
namespace {

/// The elements of a box, one after the other.
std::vector<std::byte> part_of(const CutTensor& tensor, const grouping::Box& box) {
  const std::int64_t size = bits_of(tensor.dtype) / 8;
  std::vector<std::byte> part;
  const std::int64_t elements = static_cast<std::int64_t>(tensor.bytes.size()) / size;
  for (std::int64_t element = 0; element < elements; ++element) {
    std::int64_t rest = element;
    bool inside = true;
    for (std::size_t side = tensor.shape.size(); side-- > 0;) {
      const std::int64_t place = rest % tensor.shape[side] - box.offset[side];
      inside = inside && place >= 0 && place < box.extent[side];
      rest /= tensor.shape[side];
    }
    const auto begin = tensor.bytes.begin() + element * size;
    if (inside) part.insert(part.end(), begin, begin + size);
  }
  return part;
}

SavedPiece write_piece(const CutTensor& tensor, const grouping::Box& box,
                       const std::filesystem::path& folder, Manifest& manifest) {
  const std::string file = "f" + std::to_string(manifest.files.size()) + ".safetensors";
  const std::vector<TensorDescription> description{{tensor.name, tensor.dtype, box.extent}};
  SafetensorsWriter writer(folder / file, description, metadata_of(manifest.save, manifest.step));
  writer.write(bits_of(tensor.dtype) % 8 == 0 ? part_of(tensor, box) : tensor.bytes);
  const WrittenFile written = writer.finish();
  manifest.files.push_back({file, written.bytes, written.header_checksum});
  return {box, file, tensor.name, written.checksums.at(0)};
}

}  // namespace

std::filesystem::path save_cut(const std::filesystem::path& root, std::int64_t step,
                               const std::vector<CutTensor>& tensors,
                               const std::map<std::string, std::string>& values) {
  Manifest manifest;
  const SavePlace place{root, step, new_save_id()};
  manifest.save = place.save;
  manifest.library_version = "0";
  manifest.step = step;
  manifest.arithmetic = "exact";
  manifest.values = values;
  const auto write = [&](const std::filesystem::path& folder) {
    for (const CutTensor& tensor : tensors) {
      SavedTensor saved{tensor.name, tensor.dtype, tensor.shape, {}};
      for (const grouping::Box& box : tensor.boxes)
        saved.pieces.push_back(write_piece(tensor, box, folder, manifest));
      manifest.tensors.push_back(std::move(saved));
    }
  };
  return save_folder(place, {write, [&] { return manifest; }, checkpoint::test::lone_vote});
}

}  // namespace shampoo::checkpoint::command::test
