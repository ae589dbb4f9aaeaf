// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

/// Names and completeness of a checkpoint's folder.
namespace shampoo::checkpoint {

struct Manifest;

/// step-N.
std::string folder_name(std::int64_t step);
/// N; empty unless the last part of the path is a name of folder_name().
std::optional<std::int64_t> step_of(const std::filesystem::path& folder);
/// step-N.tmp-<save>.
std::string temporary_name(std::int64_t step, std::string_view save);

/// A random UUID of version 4. Rank 0 makes it and sends it to the others.
std::string new_save_id();
/// `text` has the form of new_save_id(), in lower case.
bool is_save_id(std::string_view text);

/// Throws CheckpointError unless `manifest` is of this step.
void require_step(const std::filesystem::path& folder, const Manifest& manifest, std::int64_t step);
/// The same, and unless every file is there with the size that the manifest says;
/// std::system_error.
void require_complete(const std::filesystem::path& folder, const Manifest& manifest,
                      std::int64_t step);
/// Throws CheckpointError unless a file has the size that the manifest says.
void require_size(const std::filesystem::path& file, std::uint64_t bytes, std::uint64_t wanted);

}  // namespace shampoo::checkpoint
