// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/checkpoint/sample.h"

#include <array>
#include <fstream>
#include <span>

#include "shampoo/checkpoint/format/safetensors_writer.h"
#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/verified_file.h"

namespace shampoo::checkpoint::test {

std::filesystem::path put(const std::filesystem::path& path, std::string_view content) {
  // Some file systems wait for the disk when a file is truncated and written again.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string raw(std::string_view header, std::string_view data) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file.append(header).append(data);
}

void lone_vote(const std::exception_ptr& mine) {
  if (mine) std::rethrow_exception(mine);
}

Manifest Sample::write(const std::filesystem::path& folder, const std::string& save) const {
  const std::array<double, 6> w{first, first + 1, first + 2, first + 3, first + 4, first + 5};
  const std::int64_t count = step;
  const std::vector<TensorDescription> in_first{{"w/0", Dtype::f64, {1, 3}}, {"count", Dtype::i64}};
  const std::vector<TensorDescription> in_second{{"w/1", Dtype::f64, {1, 3}}};

  SafetensorsWriter writer(folder / "r0.safetensors", in_first, metadata_of(save, step));
  writer.write(std::as_bytes(std::span(w).first(3)));
  writer.write(std::as_bytes(std::span(&count, 1)));
  const WrittenFile one = writer.finish();
  SafetensorsWriter other(folder / "r1.safetensors", in_second, metadata_of(save, step));
  other.write(std::as_bytes(std::span(w).last(3)));
  const WrittenFile two = other.finish();

  Manifest manifest;
  manifest.save = save;
  manifest.library_version = "0";
  manifest.world = 2;
  manifest.step = step;
  manifest.plan_hash = 0xfedcba9876543210;
  manifest.arithmetic = "exact";
  manifest.files = {{"r0.safetensors", one.bytes, one.header_checksum},
                    {"r1.safetensors", two.bytes, two.header_checksum}};
  manifest.tensors = {
      {"w",
       Dtype::f64,
       {2, 3},
       {{{{0, 0}, {1, 3}}, "r0.safetensors", "w/0", one.checksums.at(0)},
        {{{1, 0}, {1, 3}}, "r1.safetensors", "w/1", two.checksums.at(0)}}},
      {"count", Dtype::i64, {}, {{{{}, {}}, "r0.safetensors", "count", one.checksums.at(1)}}}};
  manifest.values = {{"w/learning_rate", "0.1"}};
  return manifest;
}

std::filesystem::path Sample::save(const std::filesystem::path& root) const {
  Manifest manifest;
  const SavePlace place{root, step, new_save_id()};
  return save_folder(
      place, {[&](const std::filesystem::path& folder) { manifest = write(folder, place.save); },
              [&] { return manifest; }, lone_vote});
}

bool Sample::equals(const std::filesystem::path& folder) const {
  const Reader reader(folder);
  reader.verify();
  std::array<double, 3> row{};
  double expected = first;
  for (const SavedPiece& piece : reader.manifest().tensors.at(0).pieces) {
    reader.read(piece, std::as_writable_bytes(std::span(row)));
    for (const double element : row)
      if (element != expected++) return false;
  }
  return reader.manifest().step == step;
}

}  // namespace shampoo::checkpoint::test
