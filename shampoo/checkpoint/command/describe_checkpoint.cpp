// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "grouping/number_text.h"
#include "grouping/table.h"
#include "shampoo/checkpoint/command/paths.h"
#include "shampoo/checkpoint/command/run.h"
#include "shampoo/checkpoint/command/text.h"
#include "shampoo/checkpoint/reader.h"

namespace shampoo::checkpoint::command {
namespace {

std::uint64_t size_of(const TensorShard& shard) {
  return bytes_of(shard.dtype, shard.shape).value_or(0);
}

/// The manifest without what the options leave out.
class Description {
 public:
  Description(const Reader& reader, const std::filesystem::path& folder, const Options& options)
      : reader_(reader),
        manifest_(reader.manifest()),
        folder_(folder),
        prefix_(options.prefix),
        values_(options.values) {}

  std::string text() const {
    return facts() + "\n" + files() + "\n" + tensors() + (values_ ? "\n" + values() : "");
  }

  Json json() const {
    // What the manifest itself says, and its tensors under their names.
    Json json = Json::parse(to_json(manifest_));
    for (const char* field : {"checksum", "user_tensors", "slots"}) json.erase(field);
    if (!values_)
      for (const char* field : {"user_values", "rank_values", "parameters", "recipes", "rates"})
        json.erase(field);
    json["folder"] = folder_.string();
    json["tensors"] = Json::array();
    for_each_wanted([&](const TensorShard& shard, const Shard& file) {
      json["tensors"].push_back(
          {{"name", shard.key},
           {"dtype", name_of(shard.dtype)},
           {"shape", shard.shape},
           {"bytes", size_of(shard)},
           {"file", manifest_.files[shard.file].name},
           {"xxh3", grouping::hexadecimal(file.checksum(file.index_of(shard)))}});
    });
    return json;
  }

 private:
  template <typename Visit>
  void for_each_wanted(const Visit& visit) const {
    for (std::size_t f = 0; f < manifest_.files.size(); ++f) {
      const auto file = reader_.shard(f);
      reader_.for_each_tensor(f, [&](const TensorShard& shard) {
        if (shard.key.starts_with(prefix_)) visit(shard, *file);
      });
    }
  }

  std::string facts() const {
    grouping::Rows rows{
        {"step", std::to_string(manifest_.step)},
        {"saved by", counted(static_cast<std::uint64_t>(manifest_.ranks), "rank")},
        {"arithmetic", printable(manifest_.arithmetic)},
        {"library", printable(manifest_.library) + ", format " + std::to_string(newest_format)},
        {"save", printable(manifest_.save)},
        {"plan", grouping::hexadecimal(manifest_.plan_hash)},
        {"parameters", std::to_string(manifest_.parameters.size())},
        {"user values",
         std::to_string(manifest_.user_values.size()) + (values_ ? "" : "; --values shows them")}};
    for (const SavedOptimizer& optimizer : manifest_.optimizers)
      rows.push_back(
          {"optimizer",
           optimizer.name + ", " +
               counted(static_cast<std::uint64_t>(optimizer.progress.attempts), "step")});
    return "checkpoint " + path_text(folder_) + "\n" + grouping::table(rows, 1);
  }

  std::string files() const {
    grouping::Rows rows{{"file", "bytes", "tensors"}};
    for (std::size_t f = 0; f < manifest_.files.size(); ++f)
      rows.push_back({manifest_.files[f].name, std::to_string(manifest_.files[f].bytes),
                      std::to_string(reader_.shard(f)->tensors())});
    return grouping::table(rows);
  }

  std::string tensors() const {
    std::uint64_t count = 0, bytes = 0;
    grouping::Rows rows{{"tensor", "dtype", "shape", "bytes", "file"}};
    for_each_wanted([&](const TensorShard& shard, const Shard&) {
      ++count;
      bytes += size_of(shard);
      rows.push_back({printable(shard.key), std::string(name_of(shard.dtype)),
                      shape_text(shard.shape), std::to_string(size_of(shard)),
                      manifest_.files[shard.file].name});
    });
    return grouping::table(rows, 1) + counted(count, "tensor") + ", " +
           grouping::bytes_text(static_cast<std::int64_t>(bytes)) + "\n";
  }

  std::string values() const {
    grouping::Rows rows{{"user value", ""}};
    for (const auto& [name, value] : manifest_.user_values)
      rows.push_back({printable(name), printable(to_json(value))});
    std::string text = grouping::table(rows, 1);
    for (std::size_t rank = 0; rank < manifest_.rank_values.size(); ++rank)
      for (const auto& [name, value] : manifest_.rank_values[rank])
        text += "  rank " + std::to_string(rank) + ": " + printable(name) + "  " +
                printable(to_json(value)) + "\n";
    for (const SavedParameter& parameter : manifest_.parameters)
      text += "\n" + values_of(parameter);
    return text;
  }

  std::string values_of(const SavedParameter& parameter) const {
    grouping::Rows rows{
        {"steps", std::to_string(parameter.steps)},
        {"averaging_weight_sum", to_json(UserValue(parameter.averaging_weight_sum))}};
    for_each_field(
        [&](const char* name, const auto& rate) {
          const std::optional<double> number = rate;
          rows.push_back({name, number ? to_json(UserValue(*number)) : "not set"});
        },
        manifest_.rates[parameter.rates]);
    for (const std::string& rate : parameter.own_rates)
      rows.push_back({"own rate", printable(rate)});
    for (const RecipeField& field : manifest_.recipes[parameter.recipe])
      rows.push_back({printable(field.name), printable(field.value)});
    return "parameter " + printable(parameter.name) + "\n" + grouping::table(rows, 1);
  }

  const Reader& reader_;
  const Manifest& manifest_;
  const std::filesystem::path& folder_;
  const std::string& prefix_;
  bool values_;
};

}  // namespace

void describe(const Options& options, std::ostream& out) {
  const std::filesystem::path folder = checkpoint_at(options.path);
  const Reader reader(folder);
  const Description description(reader, folder, options);
  out << (options.json ? to_text(description.json()) : description.text());
}

}  // namespace shampoo::checkpoint::command
