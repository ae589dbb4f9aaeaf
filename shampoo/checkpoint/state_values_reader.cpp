// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint/shard.h"
#include "shampoo/checkpoint/state_values.h"
#include "shampoo/checkpoint/user_state_text.h"
#include "shampoo/checkpoint_error.h"
#include "shampoo/rates.h"

namespace shampoo::checkpoint {
namespace {

using grouping::Shape;

[[noreturn]] void refuse(const std::string& key, const std::string& fault) {
  throw CheckpointError("manifest: values: " + in_quotes(key) + fault);
}

/// The parts between the marks; none of an empty text.
std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const std::size_t end = std::min(text.find(mark, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// The values of which every one must be asked for.
class Values {
 public:
  explicit Values(const std::map<std::string, std::string>& values) {
    for (const auto& [key, text] : values)
      if (!key.starts_with(extra_prefix)) left_.emplace(key, &text);
  }

  const std::string& take(const std::string& key) {
    const auto found = left_.find(key);
    if (found == left_.end()) refuse(key, " is missing");
    const std::string& text = *found->second;
    left_.erase(found);
    return text;
  }

  bool has(const std::string& key) const { return left_.contains(key); }

  bool truth(const std::string& key) {
    const std::string& text = take(key);
    if (text != "true" && text != "false") refuse(key, ": must be true or false");
    return text == "true";
  }

  std::int64_t number(const std::string& key, std::int64_t most) {
    return number_of(key, take(key), most);
  }

  static std::int64_t number_of(const std::string& key, std::string_view text, std::int64_t most) {
    const auto number = integer_from(text);
    if (!number || *number < 0 || *number > most)
      refuse(key, ": must be a whole number from 0 to " + std::to_string(most));
    return *number;
  }

  /// What follows `beginning` in the first key that begins so.
  std::optional<std::string> find(const std::string& beginning) const {
    const auto found = left_.lower_bound(beginning);
    if (found == left_.end() || !found->first.starts_with(beginning)) return std::nullopt;
    return found->first.substr(beginning.size());
  }

  const std::string* first() const { return left_.empty() ? nullptr : &left_.begin()->first; }

 private:
  std::map<std::string, const std::string*> left_;
};

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr int most_int = std::numeric_limits<int>::max();

Shape shape_from(const std::string& key, std::string_view text, char mark) {
  Shape shape;
  for (const std::string_view side : split(text, mark))
    shape.push_back(Values::number_of(key, side, most));
  return shape;
}

std::vector<SavedSlot> slots_from(const std::string& key, std::string_view text) {
  std::vector<SavedSlot> slots;
  for (const std::string_view slot : split(text, ' ')) {
    const auto parts = split(slot, ':');
    if (parts.size() != 3 || parts[0].empty() ||
        (parts[1] != "elements" && parts[1] != "symmetric"))
      refuse(key, ": must be slots, each a name, a layout and a dimension");
    slots.push_back({std::string(parts[0]),
                     parts[1] == "elements" ? StateLayout::elements : StateLayout::symmetric,
                     static_cast<int>(Values::number_of(key, parts[2], most_int))});
  }
  return slots;
}

std::vector<BlockState> blocks_from(const std::string& key, std::string_view text) {
  std::vector<BlockState> blocks;
  for (const std::string_view block : split(text, ' ')) {
    const auto parts = split(block, ':');
    if (parts.size() != 4)
      refuse(key, ": must be blocks, each an offset, an extent, failures and a phase");
    blocks.push_back({{shape_from(key, parts[0], '.'), shape_from(key, parts[1], '.')},
                      static_cast<int>(Values::number_of(key, parts[2], most_int)),
                      Values::number_of(key, parts[3], most)});
  }
  return blocks;
}

void read_rate(const std::string& key, const std::string& text, double& rate) {
  const auto number = double_from(text);
  if (!number) refuse(key, ": must be a number");
  rate = *number;
}

void read_rate(const std::string& key, const std::string& text, std::optional<double>& rate) {
  rate.reset();
  if (text != "not set") read_rate(key, text, rate.emplace());
}

Rates rates_from(const std::string& parameter, Values& values) {
  Rates rates;
  for_each_field(
      [&](const std::string& name, const auto& rate) {
        const std::string key = "rates." + name + "/" + parameter;
        using Rate = std::remove_cvref_t<decltype(rate)>;
        read_rate(key, values.take(key), const_cast<Rate&>(rate));  // of `rates`
      },
      rates);
  return rates;
}

/// In the order of fields_of(), so that equal recipes are equal lists.
std::vector<RecipeField> recipe_from(const std::string& parameter, Values& values) {
  std::vector<RecipeField> fields;
  for (const RecipeField& known : fields_of(Recipe{})) {
    const std::string key = "recipe." + known.name + "/" + parameter;
    if (values.has(key)) fields.push_back({known.name, values.take(key)});
  }
  return fields;
}

}  // namespace

SavedState state_from(const std::map<std::string, std::string>& texts) {
  Values values(texts);
  SavedState state;
  StateDict& dict = state.dict;
  dict.format = static_cast<int>(values.number("format", most_int));
  if (dict.format > StateDict::newest_format)
    refuse("format", ": " + std::to_string(dict.format) + "; this version reads up to " +
                         std::to_string(StateDict::newest_format));
  state.derived = values.truth("derived");
  dict.progress = {values.number("progress.attempts", most), values.number("progress.taken", most),
                   static_cast<int>(values.number("progress.skipped_in_a_row", most_int))};
  if (dict.progress.taken > dict.progress.attempts)
    refuse("progress.taken", ": " + std::to_string(dict.progress.taken) + " steps taken of " +
                                 std::to_string(dict.progress.attempts) + " attempted");
  while (const auto name = values.find("shape/")) {
    const auto key = [&](const char* field) { return field + ("/" + *name); };
    ParameterState parameter{.name = *name};
    parameter.shape = shape_from(key("shape"), values.take(key("shape")), ' ');
    parameter.steps = values.number(key("steps"), most);
    parameter.blocks = blocks_from(key("blocks"), values.take(key("blocks")));
    parameter.rates = rates_from(*name, values);
    SavedParameter& saved = state.parameters[*name];
    saved.merged_shape = shape_from(key("merged_shape"), values.take(key("merged_shape")), ' ');
    saved.slots = slots_from(key("slots"), values.take(key("slots")));
    dict.parameters.push_back(std::move(parameter));
  }
  for (ParameterState& parameter : dict.parameters)
    parameter.recipe = recipe_from(parameter.name, values);
  if (const std::string* const key = values.first()) refuse(*key, " is unknown");
  return state;
}

}  // namespace shampoo::checkpoint
