// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/checkpoint/sample.h"

#include <array>
#include <fstream>
#include <span>
#include <stdexcept>

#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/shard_writer.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/checkpoint_order.h"
#include "shampoo/checkpoint/storage/directory_operations.h"

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

Manifest Sample::write(const std::filesystem::path& folder, const std::string& save) const {
  const std::array<double, 6> w{first, first + 1, first + 2, first + 3, first + 4, first + 5};
  const std::int64_t count = step;
  ShardWriter one(folder, "r0.safetensors",
                  {{"optimizer/w/s/0", Dtype::f64, {3}}, {"user/count", Dtype::i64}}, save, step);
  one.write(std::as_bytes(std::span(w).first(3)));
  one.write(std::as_bytes(std::span(&count, 1)));
  ShardWriter two(folder, "r1.safetensors", {{"optimizer/w/s/3", Dtype::f64, {3}}}, save, step);
  two.write(std::as_bytes(std::span(w).last(3)));

  Manifest manifest;
  manifest.save = save;
  manifest.library = "0";
  manifest.arithmetic = "exact";
  manifest.ranks = 2;
  manifest.step = step;
  manifest.plan_hash = 0xfedcba9876543210;
  manifest.files = {one.finish(), two.finish()};
  manifest.slots = {{"s", StateLayout::elements, 0, Dtype::f64}};
  manifest.recipes = {{{"averaging", "none"}}};
  manifest.rates = {{}};
  manifest.parameters = {{.name = "w",
                          .shape = {2, 3},
                          .merged_shape = {6},
                          .block_size = 3,
                          .slots = {0},
                          .files = {0, 1}}};
  manifest.user_tensors = {{"count", Dtype::i64, {}, 0}};
  manifest.user_values = {{"best", 0.1}};
  return manifest;
}

std::filesystem::path Sample::save(const std::filesystem::path& directory,
                                   Existing existing) const {
  PendingCheckpoint pending(directory, step, new_save_id(), existing);
  try {
    pending.create();
    Manifest manifest = write(pending.temporary(), pending.save());
    manifest.sequence = NewestFirst(directory).next_sequence();
    sync_folder(pending.temporary());
    pending.commit(manifest);
    pending.release();
    pending.remove_replaced();
  } catch (...) {
    pending.discard();
    throw;
  }
  return pending.folder();
}

bool Sample::equals(const std::filesystem::path& folder) const {
  const Reader reader(folder);
  reader.verify();
  std::array<double, 3> row{};
  double expected = first;
  const SavedParameter& parameter = reader.manifest().parameters.at(0);
  const SavedSlot& slot = reader.manifest().slots.at(0);
  for (const std::int64_t block : {0, 1}) {
    const StateTensor tensor = state_tensor(parameter, slot, parameter.grid().box(block));
    reader.read(shard_of(tensor, parameter.files.at(static_cast<std::size_t>(block))),
                std::as_writable_bytes(std::span(row)));
    for (const double element : row)
      if (element != expected++) return false;
  }
  return reader.manifest().step == step;
}

std::filesystem::path save_files(const std::filesystem::path& folder, std::uint32_t files) {
  std::filesystem::create_directory(folder);
  Manifest manifest;
  manifest.save = new_save_id();
  for (std::uint32_t f = 0; f < files; ++f) {
    ShardWriter writer(folder, "r" + std::to_string(f), {{"user/t" + std::to_string(f), Dtype::u8}},
                       manifest.save, 0);
    writer.write(std::vector<std::byte>(1, static_cast<std::byte>(f)));
    manifest.files.push_back(writer.finish());
    manifest.user_tensors.push_back({"t" + std::to_string(f), Dtype::u8, {}, f});
  }
  put(folder / manifest_name, to_json(manifest));
  return folder;
}

FewDescriptors::FewDescriptors(rlim_t most) {
  if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) throw std::runtime_error("getrlimit");
  const rlimit few{most, before_.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) throw std::runtime_error("setrlimit");
}

FewDescriptors::~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

}  // namespace shampoo::checkpoint::test
