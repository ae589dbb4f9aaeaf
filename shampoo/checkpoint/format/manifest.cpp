// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint/storage/file.h"
#include "shampoo/checkpoint_directory.h"

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

void require_disjoint(const std::string& who, std::vector<const Box*> boxes) {
  if (boxes.size() < 2) return;
  const std::size_t along = most_cut_side(boxes);
  std::ranges::sort(boxes, {}, [along](const Box* box) { return box->offset[along]; });
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const std::int64_t end = boxes[i]->offset[along] + boxes[i]->extent[along];
    for (std::size_t k = i + 1; k < boxes.size() && boxes[k]->offset[along] < end; ++k)
      require(!overlap(*boxes[i], *boxes[k]), who + "two blocks overlap");
  }
}

// Boxes inside the tensor that do not overlap and have its size together cover it.
void require_cover(const std::string& who, const SavedParameter& parameter) {
  const auto elements = bytes_of(Dtype::f64, parameter.merged_shape);
  require(elements.has_value(), who + "its shape has no size");
  require(bytes_of(Dtype::f64, parameter.state.shape) == elements,
          who + "shape and merged_shape have other numbers of elements");
  std::uint64_t covered = 0;
  std::vector<const Box*> boxes;
  for (const SavedBlock& block : parameter.blocks) {
    const Box& box = block.state.box;
    require(lies_in(box, parameter.merged_shape), who + "a block leaves the shape");
    const auto size = bytes_of(Dtype::f64, box.extent);
    require(size && *size <= *elements - covered,
            who + "the blocks have more elements than the parameter");
    covered += *size;
    if (*size > 0) boxes.push_back(&box);
  }
  require(covered == *elements, who + "the blocks have fewer elements than the parameter");
  require_disjoint(who, std::move(boxes));
}

void validate_slots(const std::string& who, const SavedParameter& parameter) {
  std::set<std::string_view> names;
  const auto sides = static_cast<int>(parameter.merged_shape.size());
  for (const SavedSlot& slot : parameter.slots) {
    const std::string what = who + "slot " + in_quotes(slot.name);
    require(names.insert(slot.name).second, what + " occurs twice");
    require(type_of(slot.dtype).has_value(),
            what + ": no state has the dtype " + std::string(name_of(slot.dtype)));
    if (slot.layout == StateLayout::elements) {
      require(slot.dimension == 0, what + ": elements have dimension 0");
      continue;
    }
    require(slot.dimension >= 0 && slot.dimension < sides,
            what + " has dimension " + std::to_string(slot.dimension) + ", blocks have " +
                std::to_string(sides));
    for (const SavedBlock& block : parameter.blocks) {
      const std::int64_t n = block.state.box.extent[slot.dimension];
      require(bytes_of(Dtype::f64, std::vector{n, n}).has_value(), what + " has no size");
    }
  }
}

void validate_parameter(const SavedParameter& parameter, std::size_t files) {
  const ParameterState& state = parameter.state;
  const std::string who = "parameter " + in_quotes(state.name) + ": ";
  require(state.steps >= 0, who + "steps must not be negative");
  require(state.averaging_weight_sum >= 0 && std::isfinite(state.averaging_weight_sum),
          who + "averaging_weight_sum must be finite and not negative");
  for_each_field(
      [&](const char* name, const auto& rate) {
        const std::optional<double> number = rate;
        require(!number || std::isfinite(*number),
                who + "rate " + name + " must be a finite number");
      },
      state.rates);
  require_cover(who, parameter);
  validate_slots(who, parameter);
  for (const SavedBlock& block : parameter.blocks) {
    require(block.file < files, who + "a block is in file " + std::to_string(block.file) + " of " +
                                    std::to_string(files));
    require(block.checksums.size() == parameter.slots.size(),
            who + "a block has " + std::to_string(block.checksums.size()) + " hashes for " +
                std::to_string(parameter.slots.size()) + " slots");
    require(block.state.failures >= 0 && block.state.phase >= 0,
            who + "the counters of a block must not be negative");
  }
}

void validate_user_tensors(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (const SavedUserTensor& tensor : manifest.user_tensors) {
    const std::string who = "user tensor " + in_quotes(tensor.name);
    require(names.insert(tensor.name).second, who + " occurs twice");
    require(bytes_of(tensor.dtype, tensor.shape).has_value(), who + ": its shape has no size");
    require(tensor.file < manifest.files.size(), who + " is in file " +
                                                     std::to_string(tensor.file) + " of " +
                                                     std::to_string(manifest.files.size()));
  }
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
  require(!manifest.save.empty(), "save must not be empty");
  require(manifest.ranks >= 1, "ranks must be at least 1");
  require(manifest.step >= 0, "step must not be negative");
  require(manifest.sequence >= 0, "sequence must not be negative");
  require(manifest.save.size() <= longest_save_id && manifest.parent.size() <= longest_save_id,
          "save and parent must have at most " + std::to_string(longest_save_id) + " bytes");
  const Progress& progress = manifest.progress;
  require(progress.taken >= 0 && progress.skipped_in_a_row >= 0,
          "progress: counters must not be negative");
  require(progress.taken <= progress.attempts,
          "progress: " + std::to_string(progress.taken) + " steps taken of " +
              std::to_string(progress.attempts) + " attempted");
  std::set<std::string_view> files;
  for (const ShardFile& file : manifest.files) {
    require(is_plain_name(file.name), in_quotes(file.name) + " cannot be a file of a checkpoint");
    require(files.insert(file.name).second, "file " + file.name + " occurs twice");
  }
  std::set<std::string_view> parameters;
  for (const SavedParameter& parameter : manifest.parameters) {
    require(parameters.insert(parameter.state.name).second,
            "parameter " + in_quotes(parameter.state.name) + " occurs twice");
    validate_parameter(parameter, manifest.files.size());
  }
  validate_user_tensors(manifest);
}

Manifest read_manifest(const std::filesystem::path& path) {
  const File file = File::open(path);
  const std::uint64_t bytes = file.size();
  try {
    require(bytes <= most_manifest_bytes, std::to_string(bytes) + " bytes; at most " +
                                              std::to_string(most_manifest_bytes) + " are allowed");
    std::string text(bytes, '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return manifest_from_json(text);
  } catch (const CheckpointError& error) {
    throw CheckpointError(path.string() + ": " + error.what());
  }
}

}  // namespace shampoo::checkpoint
