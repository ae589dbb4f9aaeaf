// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

/// Names and completeness of a checkpoint's folder.
namespace shampoo::checkpoint {

struct Manifest;

/// Random bits, which rank 0 sends to the others.
using SaveBits = std::array<std::uint64_t, 2>;

/// step-N.
std::string folder_name(std::int64_t step);
/// N; empty unless the last part of the path is a name of folder_name().
std::optional<std::int64_t> step_of(const std::filesystem::path& folder);
/// step-N.tmp-<save>.
std::string temporary_name(std::int64_t step, std::string_view save);
/// step-N.old-<save>: a checkpoint that a save of the same step is about to replace. It is the
/// checkpoint of its step until there is a step-N.
std::string replaced_name(std::int64_t step, std::string_view save);

/// A UUID of version 4 with these random bits, of which it has 122.
std::string save_id_of(const SaveBits& random);
SaveBits random_bits();
/// save_id_of(random_bits()).
std::string new_save_id();
/// `text` has the form of new_save_id(), in lower case.
bool is_save_id(std::string_view text);

/// Throws CheckpointError unless `manifest` is of this step.
void require_step(const std::filesystem::path& folder, const Manifest& manifest, std::int64_t step);
/// The same, and unless every file is there with the size that the manifest says;
/// std::system_error.
void require_complete(const std::filesystem::path& folder, const Manifest& manifest,
                      std::int64_t step);

/// What is wrong with a checkpoint that examine() finds broken, by a CheckpointError or because a
/// file or the folder is missing; nothing if it throws nothing. Other errors pass: they are not the
/// checkpoint's.
std::optional<std::string> fault_of(const std::filesystem::path& folder,
                                    const std::function<void()>& examine);

}  // namespace shampoo::checkpoint
