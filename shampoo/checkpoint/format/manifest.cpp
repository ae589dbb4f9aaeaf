// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <tuple>

#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint/storage/file.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

void require(bool holds, const std::string& fault) {
  if (!holds) throw CheckpointError("manifest: " + fault);
}

void require_at_most(std::size_t count, std::size_t most, const std::string& what) {
  require(count <= most, std::to_string(count) + " " + what + "; at most " + std::to_string(most) +
                             " are allowed");
}

void validate_text(const std::string& text, const std::string& what) {
  require_at_most(text.size(), limits::text_bytes, "bytes in " + what + " " + in_quotes(text));
}

void validate_progress(const Progress& progress) {
  require(progress.taken >= 0 && progress.skipped_in_a_row >= 0,
          "progress: counters must not be negative");
  require(progress.taken <= progress.attempts,
          "progress: " + std::to_string(progress.taken) + " steps taken of " +
              std::to_string(progress.attempts) + " attempted");
  require(std::ranges::all_of(progress.gradient_norms, [](double norm) { return norm >= 0; }),
          "progress: gradient_norms must not be negative");
}

/// Each parameter is of one of them.
void validate_optimizers(const Manifest& manifest) {
  if (manifest.optimizers.empty()) return;
  std::set<std::string_view> names;
  for (const SavedOptimizer& optimizer : manifest.optimizers) {
    const std::string who = "optimizer " + in_quotes(optimizer.name);
    require(is_optimizer_name(optimizer.name), who + ": its name is not plain");
    require(names.insert(optimizer.name).second, who + " occurs twice");
    validate_text(optimizer.arithmetic, "arithmetic");
    validate_progress(optimizer.progress);
  }
  const SavedOptimizer& first = manifest.optimizers.front();
  require(first == SavedOptimizer{first.name, manifest.arithmetic, manifest.plan_hash,
                                  manifest.progress},
          "arithmetic, plan_hash and progress must be those of the first of its optimizers");
  for (const SavedParameter& parameter : manifest.parameters) {
    const std::size_t end = parameter.name.find('/');
    require(end != parameter.name.npos && names.contains(parameter.name.substr(0, end)),
            "parameter " + in_quotes(parameter.name) + " is of none of the optimizers");
  }
}

void validate_counts(const Manifest& manifest) {
  require_at_most(manifest.optimizers.size(), limits::recipes, "optimizers");
  require_at_most(manifest.files.size(), limits::rows, "files");
  require_at_most(manifest.slots.size(), limits::recipes, "slots");
  require_at_most(manifest.recipes.size(), limits::recipes, "recipes");
  require_at_most(manifest.rates.size(), limits::rows, "rates");
  require_at_most(manifest.parameters.size(), limits::rows, "parameters");
  require_at_most(manifest.user_tensors.size(), limits::rows, "user tensors");
  require_at_most(manifest.rank_values.size(), limits::rows, "rank_values");
}

void validate_tables(const Manifest& manifest) {
  for (const SavedSlot& slot : manifest.slots) {
    const std::string who = "slot " + in_quotes(slot.name);
    validate_text(slot.name, "slot");
    require(type_of(slot.dtype).has_value(),
            who + ": no state has the dtype " + std::string(name_of(slot.dtype)));
    require(slot.dimension >= 0 && slot.dimension < static_cast<int>(limits::sides),
            who + " has dimension " + std::to_string(slot.dimension));
    require(slot.layout != StateLayout::elements || slot.dimension == 0,
            who + ": elements have dimension 0");
  }
  for (const SavedRecipe& recipe : manifest.recipes) {
    require_at_most(recipe.size(), limits::recipe_fields, "fields in a recipe");
    for (const RecipeField& field : recipe) {
      validate_text(field.name, "recipe field");
      validate_text(field.value, "recipe field " + in_quotes(field.name) + ":");
    }
  }
  for (const Rates& rates : manifest.rates)
    for_each_field(
        [&](const char* name, const auto& rate) {
          const std::optional<double> number = rate;
          require(!number || std::isfinite(*number),
                  std::string("rate ") + name + " must be a finite number");
        },
        rates);
}

void validate_slots(const std::string& who, const SavedParameter& parameter,
                    const Manifest& manifest) {
  require_at_most(parameter.slots.size(), limits::slots, "slots of " + who);
  std::set<std::string_view> names;
  for (const std::uint32_t row : parameter.slots) {
    require(row < manifest.slots.size(), who + ": there is no slot " + std::to_string(row));
    const SavedSlot& slot = manifest.slots[row];
    const std::string what = who + ": slot " + in_quotes(slot.name);
    require(names.insert(slot.name).second, what + " occurs twice");
    if (slot.layout == StateLayout::elements) continue;
    const auto sides = static_cast<int>(parameter.merged_shape.size());
    require(slot.dimension < sides, what + " has dimension " + std::to_string(slot.dimension) +
                                        ", blocks have " + std::to_string(sides));
    const std::int64_t n = std::min(parameter.block_size, parameter.merged_shape[slot.dimension]);
    require(bytes_of(Dtype::f64, std::array{n, n}).has_value(), what + " has no size");
  }
}

void validate_blocks(const std::string& who, const SavedParameter& parameter, std::size_t files) {
  require_at_most(parameter.shape.size(), limits::sides, "sides of " + who);
  require_at_most(parameter.merged_shape.size(), limits::sides, "merged sides of " + who);
  const auto bytes = bytes_of(Dtype::f64, parameter.merged_shape);
  require(bytes.has_value(), who + ": its shape has no size");
  require(bytes_of(Dtype::f64, parameter.shape) == bytes,
          who + ": shape and merged_shape have other numbers of elements");
  require(parameter.block_size >= 1, who + ": block_size must be at least 1");
  const auto blocks = static_cast<std::size_t>(parameter.grid().count());
  require_at_most(blocks, limits::blocks, "blocks of " + who);
  require(parameter.files.size() == blocks, who + " has " + std::to_string(blocks) +
                                                " blocks, but names the files of " +
                                                std::to_string(parameter.files.size()));
  for (const std::uint32_t file : parameter.files)
    require(file < files,
            who + ": a block is in file " + std::to_string(file) + " of " + std::to_string(files));
  require(parameter.failures.empty() ||
              (parameter.failures.size() == blocks && std::ranges::min(parameter.failures) >= 0),
          who + ": failures must be one number >= 0 for each block");
}

void validate_parameters(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (const SavedParameter& parameter : manifest.parameters) {
    const std::string who = "parameter " + in_quotes(parameter.name);
    validate_text(parameter.name, "parameter");
    require(names.insert(parameter.name).second, who + " occurs twice");
    require(parameter.steps >= 0, who + ": steps must not be negative");
    require(parameter.averaging_weight_sum >= 0 && std::isfinite(parameter.averaging_weight_sum),
            who + ": averaging_weight_sum must be finite and not negative");
    require(parameter.recipe < manifest.recipes.size(),
            who + ": there is no recipe " + std::to_string(parameter.recipe));
    for (const std::uint32_t row :
         {parameter.rates, parameter.base_rates.value_or(0), parameter.group_rates.value_or(0)})
      require(row < manifest.rates.size(), who + ": there are no rates " + std::to_string(row));
    require_at_most(parameter.own_rates.size(), limits::slots, "own_rates of " + who);
    for (const std::string& rate : parameter.own_rates) validate_text(rate, who + ": own_rates");
    validate_blocks(who, parameter, manifest.files.size());
    validate_slots(who, parameter, manifest);
  }
}

void validate_user_tensors(const Manifest& manifest) {
  std::set<std::pair<std::string_view, int>> names;
  std::map<std::string_view, int> counts;
  for (const SavedUserTensor& tensor : manifest.user_tensors) {
    const std::string who = "user tensor " + in_quotes(tensor.name);
    validate_text(tensor.name, "user tensor");
    require_at_most(tensor.shape.size(), limits::sides, "sides of " + who);
    require(!tensor.rank || (*tensor.rank >= 0 && *tensor.rank < manifest.ranks),
            who + ": rank must be one of " + std::to_string(manifest.ranks));
    require(names.emplace(tensor.name, tensor.rank.value_or(-1)).second, who + " occurs twice");
    require(bytes_of(tensor.dtype, tensor.shape).has_value(), who + ": its shape has no size");
    require(tensor.file < manifest.files.size(), who + " is in file " +
                                                     std::to_string(tensor.file) + " of " +
                                                     std::to_string(manifest.files.size()));
    ++counts[tensor.name];
  }
  for (const auto& [name, count] : counts) {
    const bool shared = names.contains({name, -1});
    require(shared ? count == 1 : count == manifest.ranks,
            "user tensor " + in_quotes(name) + ": there must be one, or one of each rank");
  }
}

void validate_values(const UserValues& values, const std::string& what) {
  require_at_most(values.size(), limits::user_values, "values in " + what);
  for (const auto& [name, value] : values) {
    validate_text(name, what);
    if (const auto* const text = std::get_if<std::string>(&value))
      require_at_most(text->size(), limits::value_bytes,
                      "bytes in " + what + " " + in_quotes(name));
  }
}

}  // namespace

BlockState SavedParameter::block_state(std::int64_t block) const {
  const auto at = static_cast<std::size_t>(block);
  return {grid().box(block), failures.empty() ? 0 : failures.at(at)};
}

bool is_optimizer_name(std::string_view name) {
  constexpr std::size_t longest = 255;
  const auto allowed = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' || letter == '-';
  };
  return !name.empty() && name.size() <= longest && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

bool is_plain_name(std::string_view name) {
  return is_optimizer_name(name) && name != manifest_name;
}

void validate(const Manifest& manifest) {
  require(!manifest.save.empty(), "save must not be empty");
  require(manifest.ranks >= 1, "ranks must be at least 1");
  require(manifest.step >= 0, "step must not be negative");
  require(manifest.sequence >= 0, "sequence must not be negative");
  require(manifest.save.size() <= longest_save_id && manifest.parent.size() <= longest_save_id,
          "save and parent must have at most " + std::to_string(longest_save_id) + " bytes");
  for (const std::string* text : {&manifest.save, &manifest.library, &manifest.arithmetic})
    validate_text(*text, "text");
  validate_progress(manifest.progress);
  validate_counts(manifest);
  validate_optimizers(manifest);
  std::set<std::string_view> files;
  for (const ShardFile& file : manifest.files) {
    require(is_plain_name(file.name), in_quotes(file.name) + " cannot be a file of a checkpoint");
    require(files.insert(file.name).second, "file " + file.name + " occurs twice");
  }
  validate_tables(manifest);
  validate_parameters(manifest);
  validate_user_tensors(manifest);
  validate_values(manifest.user_values, "user_values");
  const std::size_t values = manifest.rank_values.size();
  require(values == 0 || values == static_cast<std::size_t>(manifest.ranks),
          "rank_values: there must be one object for each rank, or none");
  for (const UserValues& of_rank : manifest.rank_values) validate_values(of_rank, "rank_values");
}

std::string read_manifest_text(const std::filesystem::path& path) {
  const File file = File::open(path);
  const std::uint64_t bytes = file.size();
  if (bytes > limits::manifest_bytes)
    throw CheckpointError(path.string() + ": manifest: " + std::to_string(bytes) +
                          " bytes; at most " + std::to_string(limits::manifest_bytes) +
                          " are allowed");
  std::string text(bytes, '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

Manifest manifest_from_json(std::string_view text, const std::filesystem::path& path) {
  try {
    return manifest_from_json(text);
  } catch (const CheckpointError& error) {
    throw CheckpointError(path.string() + ": " + error.what());
  }
}

Manifest read_manifest(const std::filesystem::path& path) {
  return manifest_from_json(read_manifest_text(path), path);
}

}  // namespace shampoo::checkpoint
