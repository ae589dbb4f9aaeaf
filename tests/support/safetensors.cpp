// SPDX-License-Identifier: Apache-2.0
#include "tests/support/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace shampoo::test {
namespace {

using Json = nlohmann::json;

// Numbers lie in the file as this machine keeps them.
static_assert(std::endian::native == std::endian::little);

constexpr std::streamsize length_bytes = 8;
constexpr std::uint64_t most_header_bytes = 100'000'000;
constexpr const char* metadata_name = "__metadata__";

void require(bool holds, const std::string& fault) {
  if (!holds) throw std::invalid_argument(fault);
}

struct Range {
  std::uint64_t begin = 0, end = 0;
};

Range range_of(const std::string& name, const Json& entry) {
  require(entry.is_object() && entry.size() == 3,
          name + ": dtype, shape and data_offsets expected");
  require(entry.at("dtype") == "F64", name + ": dtype must be F64");
  const Json& offsets = entry.at("data_offsets");
  require(offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
              offsets[1].is_number_unsigned(),
          name + ": data_offsets must be two sizes");
  return {offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>()};
}

SafeTensors::Tensor tensor_of(const std::string& name, const Json& entry, const std::string& data) {
  const Range range = range_of(name, entry);
  require(range.begin <= range.end && range.end <= data.size(), name + ": outside the data");

  SafeTensors::Tensor tensor;
  std::uint64_t count = 1;
  for (const Json& side : entry.at("shape")) {
    require(side.is_number_unsigned(), name + ": a side is no size");
    tensor.shape.push_back(side.get<std::int64_t>());
    count *= side.get<std::uint64_t>();
    require(count <= data.size(), name + ": larger than the data");
  }
  require(range.end - range.begin == count * sizeof(double),
          name + ": size does not fit the shape");
  tensor.elements.resize(count);
  if (count > 0)
    std::memcpy(tensor.elements.data(), data.data() + range.begin, count * sizeof(double));
  return tensor;
}

void require_full_cover(const Json& header, std::uint64_t size) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == metadata_name) continue;
    const Range range = range_of(name, entry);
    ranges.emplace_back(range.begin, range.end);
  }
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t covered = 0;
  for (const auto& [begin, end] : ranges) {
    require(begin == covered, "a gap or an overlap at byte " + std::to_string(covered));
    covered = end;
  }
  require(covered == size, "bytes after the last tensor");
}

std::string read_header(std::istream& file) {
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), length_bytes);
  require(file.gcount() == length_bytes, "too short");
  require(length <= most_header_bytes, "the header is too long");
  std::string header(length, ' ');
  file.read(header.data(), static_cast<std::streamsize>(length));
  require(file.gcount() == static_cast<std::streamsize>(length),
          "the header is longer than the file");
  return header;
}

SafeTensors parse(std::istream& file) {
  const Json header = Json::parse(read_header(file));
  require(header.is_object(), "the header is no object");
  const std::string data{std::istreambuf_iterator<char>(file), {}};
  require_full_cover(header, data.size());

  SafeTensors result;
  for (const auto& [name, entry] : header.items()) {
    if (name == metadata_name)
      result.metadata = entry.get<std::map<std::string, std::string>>();
    else
      result.tensors.emplace(name, tensor_of(name, entry, data));
  }
  return result;
}

std::map<std::string, std::string> parse_metadata(std::istream& file) {
  const auto is_wanted = [](int depth, Json::parse_event_t event, const Json& parsed) {
    return depth != 1 || event != Json::parse_event_t::key || parsed == metadata_name;
  };
  return Json::parse(read_header(file), is_wanted).at(metadata_name);
}

template <typename Parse>
auto parse_at(const std::filesystem::path& path, const Parse& parse) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::invalid_argument(path.string() + ": this file cannot be opened");
  try {
    return parse(file);
  } catch (const std::exception& error) {
    throw std::invalid_argument(path.string() + ": " + error.what());
  }
}

}  // namespace

SafeTensors read_safetensors(const std::filesystem::path& path) { return parse_at(path, parse); }

std::map<std::string, std::string> read_metadata(const std::filesystem::path& path) {
  return parse_at(path, parse_metadata);
}

}  // namespace shampoo::test
