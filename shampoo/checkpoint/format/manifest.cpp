// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint/storage/file.h"
#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {
namespace {

using grouping::Box;

void require(bool holds, const std::string& fault) {
  if (!holds) throw CheckpointError("manifest: " + fault);
}

bool lies_in(const Box& box, const std::vector<std::int64_t>& shape) {
  if (box.offset.size() != shape.size() || box.extent.size() != shape.size()) return false;
  for (std::size_t side = 0; side < shape.size(); ++side)
    if (box.offset[side] < 0 || box.extent[side] < 0 || box.offset[side] > shape[side] ||
        box.extent[side] > shape[side] - box.offset[side])
      return false;
  return true;
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t side = 0; side < a.offset.size(); ++side)
    if (a.offset[side] >= b.offset[side] + b.extent[side] ||
        b.offset[side] >= a.offset[side] + a.extent[side])
      return false;
  return true;
}

/// Along it, few boxes have to be compared with each other.
std::size_t most_cut_side(const std::vector<const Box*>& boxes) {
  std::size_t best = 0, most = 0;
  for (std::size_t side = 0; side < boxes.front()->offset.size(); ++side) {
    std::set<std::int64_t> cuts;
    for (const Box* box : boxes) cuts.insert(box->offset[side]);
    if (cuts.size() > most) best = side;
    most = std::max(most, cuts.size());
  }
  return best;
}

// Boxes inside the tensor that do not overlap and have its size together cover it.
void require_cover(const SavedTensor& tensor) {
  const std::string who = "tensor " + in_quotes(tensor.name) + ": ";
  const auto wanted = bytes_of(tensor.dtype, tensor.shape);
  require(wanted.has_value(), who + "its shape has no size");
  std::uint64_t covered = 0;
  std::vector<const Box*> boxes;
  for (const SavedPiece& piece : tensor.pieces) {
    require(lies_in(piece.box, tensor.shape), who + "the piece " + in_quotes(piece.key) + " in " +
                                                  piece.file + " lies outside of the tensor");
    const auto bytes = bytes_of(tensor.dtype, piece.box.extent);
    require(bytes && *bytes <= *wanted - covered,
            who + "the pieces have more elements than the tensor");
    covered += *bytes;
    if (*bytes > 0) boxes.push_back(&piece.box);
  }
  require(covered == *wanted, who + "the pieces have " + std::to_string(covered) +
                                  " bytes, the tensor has " + std::to_string(*wanted));
  if (boxes.size() < 2) return;

  const std::size_t along = most_cut_side(boxes);
  std::sort(boxes.begin(), boxes.end(),
            [along](const Box* a, const Box* b) { return a->offset[along] < b->offset[along]; });
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const std::int64_t end = boxes[i]->offset[along] + boxes[i]->extent[along];
    for (std::size_t k = i + 1; k < boxes.size() && boxes[k]->offset[along] < end; ++k)
      require(!overlap(*boxes[i], *boxes[k]), who + "two pieces overlap");
  }
}

std::set<std::string_view> validate_files(const std::vector<ShardFile>& files) {
  std::set<std::string_view> names;
  for (const ShardFile& file : files) {
    require(is_plain_name(file.name), in_quotes(file.name) + " cannot be a file of a checkpoint");
    require(names.insert(file.name).second, "file " + file.name + " occurs twice");
  }
  return names;
}

}  // namespace

bool is_plain_name(std::string_view name) {
  constexpr std::size_t longest = 255;
  const auto allowed = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' || letter == '-';
  };
  return !name.empty() && name.size() <= longest && name.front() != '.' && name != manifest_name &&
         std::all_of(name.begin(), name.end(), allowed);
}

void validate(const Manifest& manifest) {
  require(manifest.world >= 1, "world must be at least 1");
  require(manifest.step >= 0, "step must not be negative");
  require(!manifest.save.empty(), "save must not be empty");
  const auto files = validate_files(manifest.files);
  std::set<std::string_view> names;
  std::set<std::pair<std::string_view, std::string_view>> keys;
  for (const SavedTensor& tensor : manifest.tensors) {
    require(names.insert(tensor.name).second, "tensor " + in_quotes(tensor.name) + " occurs twice");
    for (const SavedPiece& piece : tensor.pieces) {
      require(files.contains(piece.file), "tensor " + in_quotes(tensor.name) + ": file " +
                                              in_quotes(piece.file) + " is not listed");
      require(keys.insert({piece.file, piece.key}).second,
              "tensor " + in_quotes(tensor.name) + ": the key " + in_quotes(piece.key) + " of " +
                  piece.file + " is used twice");
    }
    require_cover(tensor);
  }
}

Manifest read_manifest(const std::filesystem::path& path) {
  constexpr std::uint64_t longest = std::uint64_t{1} << 30;
  const File file = File::open(path);
  const std::uint64_t bytes = file.size();
  try {
    require(bytes <= longest,
            std::to_string(bytes) + " bytes; at most " + std::to_string(longest) + " are allowed");
    std::string text(bytes, '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return manifest_from_json(text);
  } catch (const CheckpointError& error) {
    throw CheckpointError(path.string() + ": " + error.what());
  }
}

}  // namespace shampoo::checkpoint
