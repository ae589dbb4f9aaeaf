// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/format/tensor_entry.h"

namespace shampoo::checkpoint {

/// Whether the bytes of tensors are compared with their checksums.
enum class Checksums : std::uint8_t { compare, skip };

/// Throws CheckpointError unless the file is there with the size that the manifest says;
/// std::system_error.
void require_size(const std::filesystem::path& folder, const ShardFile& listed);

/// A file of a checkpoint. Throws CheckpointError unless size and header are those that the
/// manifest knows; std::system_error.
SafetensorsFile open_listed(const std::filesystem::path& folder, const ShardFile& listed);

/// What the header of a file of a checkpoint says about it.
std::map<std::string, std::string> metadata_of(const std::string& save, std::int64_t step);

/// Throws CheckpointError unless the file says that it is of the save and the step that the
/// manifest is of.
void require_same_save(const SafetensorsFile& file, const Manifest& manifest);

/// Where a piece lies in its file. Throws CheckpointError if it is missing or has another dtype or
/// shape than the manifest says.
TensorEntry entry_of(const SafetensorsFile& file, const SavedTensor& tensor,
                     const SavedPiece& piece);

/// Throws CheckpointError with file, tensor and offset if the checksum that was found is not the
/// manifest's.
void require_checksum(const SafetensorsFile& file, const TensorEntry& entry,
                      const SavedPiece& piece, std::uint64_t found);

/// Takes a part of a piece, with its offset there.
using TakePart = std::function<void(std::uint64_t offset, std::span<const std::byte> part)>;

/// Reads a piece in parts of at most 1 MiB, one after the other. The checksum is compared after the
/// last. Throws as require_checksum() does, and std::system_error.
void read_parts(const SafetensorsFile& file, const TensorEntry& entry, const SavedPiece& piece,
                const TakePart& take, Checksums checksums = Checksums::compare);

/// Reads all bytes of a piece. Throws as read_parts() does, with `into` overwritten.
void read_whole(const SafetensorsFile& file, const TensorEntry& entry, const SavedPiece& piece,
                std::byte* into, Checksums checksums = Checksums::compare);

}  // namespace shampoo::checkpoint
