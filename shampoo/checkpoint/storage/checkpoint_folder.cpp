// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <system_error>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint/storage/file.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

constexpr std::string_view prefix = "step-";

// x: any digit.
constexpr std::string_view form_of_ids = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
constexpr std::string_view digits_of_ids = "0123456789abcdef";

}  // namespace

std::string folder_name(std::int64_t step) { return std::string(prefix) + std::to_string(step); }

std::optional<std::int64_t> step_of(const std::filesystem::path& folder) {
  const std::filesystem::path last = folder.has_filename() ? folder : folder.parent_path();
  const std::string name = last.filename().string();
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = std::string_view(name).substr(prefix.size());
  std::int64_t step = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (step < 0 || folder_name(step) != name) return std::nullopt;
  return step;
}

std::string temporary_name(std::int64_t step, std::string_view save) {
  return folder_name(step) + ".tmp-" + std::string(save);
}

std::string replaced_name(std::int64_t step, std::string_view save) {
  return folder_name(step) + ".old-" + std::string(save);
}

std::string save_id_of(const SaveBits& random) {
  std::string id(form_of_ids);
  std::size_t place = 0;
  for (char& letter : id) {
    if (letter == '-') continue;
    const std::uint64_t digit = random[place / 16] >> (4 * (place % 16)) & 15;
    if (letter == 'x') letter = digits_of_ids[digit];
    ++place;
  }
  return id;
}

SaveBits random_bits() {
  std::random_device device;
  std::uniform_int_distribution<std::uint64_t> bits;
  return {bits(device), bits(device)};
}

std::string new_save_id() { return save_id_of(random_bits()); }

bool is_save_id(std::string_view text) {
  return std::ranges::equal(text, form_of_ids, [](char letter, char form) {
    return form == 'x' ? digits_of_ids.find(letter) != std::string_view::npos : letter == form;
  });
}

void require_step(const std::filesystem::path& folder, const Manifest& manifest,
                  std::int64_t step) {
  if (manifest.step != step)
    throw CheckpointError(folder.string() + ": the manifest is of step " +
                          std::to_string(manifest.step) + ", not " + std::to_string(step));
}

void require_complete(const std::filesystem::path& folder, const Manifest& manifest,
                      std::int64_t step) {
  require_step(folder, manifest, step);
  for (const ShardFile& file : manifest.files)
    require_size(folder / file.name, File::open(folder / file.name).size(), file.bytes);
}

std::optional<std::string> fault_of(const std::filesystem::path& folder,
                                    const std::function<void()>& examine) {
  try {
    examine();
    return std::nullopt;
  } catch (const CheckpointError& error) {
    return error.what();
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory &&
        error.code() != std::errc::not_a_directory && !is_gone(error.code(), folder))
      throw;
    return error.what();
  }
}

}  // namespace shampoo::checkpoint
