// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/describe.h"

#include <map>
#include <string>

#include "shampoo/checkpoint/command/places.h"
#include "shampoo/checkpoint/command/table.h"
#include "shampoo/checkpoint/command/text.h"
#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/reader.h"

namespace shampoo::checkpoint::command {
namespace {

/// The manifest without what the options leave out.
class Description {
 public:
  Description(const Manifest& manifest, const std::filesystem::path& folder, const Options& options)
      : manifest_(manifest), folder_(folder), prefix_(options.prefix), values_(options.values) {}

  std::string text() const {
    return facts() + "\n" + files() + "\n" + tensors() + (values_ ? "\n" + values() : "");
  }

  Json json() const {
    Json files = Json::array(), tensors = Json::array();
    for (const ShardFile& file : manifest_.files)
      files.push_back({{"name", file.name}, {"bytes", file.bytes}});
    for (const SavedTensor& tensor : manifest_.tensors)
      if (wanted(tensor.name)) tensors.push_back(json_of(tensor));
    Json json{{"folder", folder_.string()},
              {"step", manifest_.step},
              {"world", manifest_.world},
              {"arithmetic", manifest_.arithmetic},
              {"library_version", manifest_.library_version},
              {"schema", manifest_schema},
              {"save", manifest_.save},
              {"plan_hash", hexadecimal(manifest_.plan_hash)},
              {"files", files},
              {"tensors", tensors}};
    if (!values_) return json;
    json["values"] = Json::object();
    for (const auto& [key, value] : manifest_.values)
      if (wanted(key)) json["values"][key] = value;
    return json;
  }

 private:
  bool wanted(const std::string& name) const { return name.starts_with(prefix_); }

  static Json json_of(const SavedTensor& tensor) {
    Json pieces = Json::array();
    for (const SavedPiece& piece : tensor.pieces)
      pieces.push_back({{"offset", piece.box.offset},
                        {"extent", piece.box.extent},
                        {"file", piece.file},
                        {"key", piece.key},
                        {"xxh3", hexadecimal(piece.checksum)}});
    return {{"name", tensor.name},
            {"dtype", name_of(tensor.dtype)},
            {"shape", tensor.shape},
            {"bytes", bytes_of(tensor)},
            {"pieces", pieces}};
  }

  std::string facts() const {
    Table table({{"checkpoint"}, {path_text(folder_)}});
    table.add({"step", std::to_string(manifest_.step)});
    table.add({"saved by", counted(static_cast<std::uint64_t>(manifest_.world), "rank")});
    table.add({"arithmetic", printable(manifest_.arithmetic)});
    table.add({"library", printable(manifest_.library_version) + ", format " +
                              std::to_string(manifest_schema)});
    table.add({"save", printable(manifest_.save)});
    table.add({"plan", hexadecimal(manifest_.plan_hash)});
    table.add({"values", std::to_string(manifest_.values.size()) +
                             (values_ || manifest_.values.empty() ? "" : "; --values shows them")});
    return table.text();
  }

  std::string files() const {
    std::map<std::string, std::uint64_t> pieces;
    for (const SavedTensor& tensor : manifest_.tensors)
      for (const SavedPiece& piece : tensor.pieces) ++pieces[piece.file];
    Table table({{"file"}, {"bytes", Align::right}, {"pieces", Align::right}});
    for (const ShardFile& file : manifest_.files)
      table.add({file.name, std::to_string(file.bytes), std::to_string(pieces[file.name])});
    return table.text();
  }

  std::string tensors() const {
    std::uint64_t count = 0, bytes = 0;
    Table table({{"tensor"},
                 {"dtype"},
                 {"shape", Align::right},
                 {"bytes", Align::right},
                 {"piece"},
                 {"file"}});
    for (const SavedTensor& tensor : manifest_.tensors) {
      if (!wanted(tensor.name)) continue;
      ++count;
      bytes += bytes_of(tensor);
      add(tensor, table);
    }
    return table.text() + counted(count, "tensor") + ", " + size_text(bytes) + "\n";
  }

  static void add(const SavedTensor& tensor, Table& table) {
    std::vector<std::string> head{printable(tensor.name), std::string(name_of(tensor.dtype)),
                                  shape_text(tensor.shape), std::to_string(bytes_of(tensor))};
    if (tensor.pieces.empty()) table.add({head[0], head[1], head[2], head[3], "none", ""});
    for (const SavedPiece& piece : tensor.pieces) {
      table.add(
          {head[0], head[1], head[2], head[3], box_text(piece.box, tensor.shape), piece.file});
      head.assign(4, "");
    }
  }

  std::string values() const {
    Table table({{"value"}, {""}});
    for (const auto& [key, value] : manifest_.values)
      if (wanted(key)) table.add({printable(key), printable(value)});
    return table.text();
  }

  const Manifest& manifest_;
  const std::filesystem::path& folder_;
  const std::string& prefix_;
  bool values_;
};

}  // namespace

void describe(const Options& options, std::ostream& out) {
  const std::filesystem::path folder = checkpoint_at(options.path);
  const Reader reader(folder);
  const Description description(reader.manifest(), folder, options);
  out << (options.json ? to_text(description.json()) : description.text());
}

}  // namespace shampoo::checkpoint::command
