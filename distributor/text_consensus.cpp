// SPDX-License-Identifier: Apache-2.0
#include "distributor/text_consensus.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>

#include "distributor/rank_list.h"
#include "distributor/serialization.h"
#include "kernels/buffer.h"

namespace shampoo {

namespace {

using Counts = std::vector<std::int64_t>;

/// A line of this rank's text that differs from rank 0's.
struct Difference {
  std::int64_t line = std::numeric_limits<std::int64_t>::max();  ///< no difference
  std::string text;
};

template <typename Visitor>
void for_each_field(Visitor&& visit, Difference& difference) {
  visit("line", difference.line);
  visit("text", difference.text);
}

Difference differing_line(const std::string& own, const std::string& other) {
  std::istringstream mine(own), theirs(other);
  std::string a, b;
  for (std::int64_t line = 0;; ++line) {
    const bool has_a = static_cast<bool>(std::getline(mine, a));
    const bool has_b = static_cast<bool>(std::getline(theirs, b));
    if (!has_a && !has_b) return {};
    if (has_a != has_b || a != b) return {line, has_a ? a : "nothing"};
  }
}

std::string line_of(const std::string& text, std::int64_t number) {
  std::istringstream lines(text);
  std::string line;
  for (std::int64_t i = 0; i <= number; ++i)
    if (!std::getline(lines, line)) return "nothing";
  return line;
}

/// `gather(bytes, counts)` is an all_gather of host data that may be copied through a device.
template <typename Gather>
std::vector<std::string> gather_texts_with(const Communicator& communicator, const std::string& own,
                                           const Gather& gather) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto lengths = std::make_shared<Counts>(ranks);
  (*lengths)[communicator.rank()] = static_cast<std::int64_t>(own.size());
  gather(lengths, Counts(ranks, sizeof(std::int64_t)));

  std::size_t total = 0, begin = 0;
  for (std::size_t r = 0; r < ranks; total += static_cast<std::size_t>((*lengths)[r++]))
    if (static_cast<int>(r) == communicator.rank()) begin = total;
  const auto joined = std::make_shared<std::string>(total, '\0');
  joined->replace(begin, own.size(), own);
  gather(joined, *lengths);

  std::vector<std::string> texts;
  for (std::size_t r = 0, at = 0; r < ranks; at += texts[r++].size())
    texts.push_back(joined->substr(at, static_cast<std::size_t>((*lengths)[r])));
  return texts;
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own) {
  return gather_texts_with(communicator, own, [&](const auto& data, const Counts& counts) {
    communicator.all_gather(data->data(), counts, {.keep_alive = data}).wait();
  });
}

std::vector<std::string> gather_texts(kernels::Backend& backend, Communicator& communicator,
                                      const std::string& own) {
  return gather_texts_with(communicator, own, [&](const auto& data, const Counts& counts) {
    const auto bytes =
        static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
    const auto buffer = std::make_shared<kernels::Buffer>(backend, bytes);
    if (bytes > 0) backend.upload(buffer->data(), data->data(), bytes);
    communicator
        .all_gather(buffer->data(), counts, {.stream = {backend.stream()}, .keep_alive = buffer})
        .wait();
    if (bytes > 0) backend.download(data->data(), buffer->data(), bytes);
    backend.synchronize();
  });
}

std::string first_difference(kernels::Backend& backend, Communicator& communicator,
                             const std::string& own) {
  const bool is_root = communicator.rank() == 0;
  const std::string reference =
      gather_texts(backend, communicator, is_root ? own : std::string()).front();
  std::vector<Difference> found;
  for (const std::string& record :
       gather_texts(backend, communicator, serialize(differing_line(own, reference))))
    found.push_back(deserialize<Difference>(record));
  const std::int64_t first = std::ranges::min_element(found, {}, &Difference::line)->line;
  if (first == Difference().line) return {};

  // Ranks whose first difference comes later agree with rank 0 on this line.
  const std::string usual = line_of(reference, first);
  std::map<std::string, std::vector<int>> ranks_by_line;
  for (std::size_t r = 0; r < found.size(); ++r)
    ranks_by_line[found[r].line == first ? found[r].text : usual].push_back(static_cast<int>(r));
  std::string sentence;
  const auto add = [&](const std::string& line, const std::vector<int>& ranks) {
    if (!sentence.empty()) sentence += ", ";
    sentence += rank_list(ranks) + (ranks.size() == 1 ? " has '" : " have '") + line + "'";
  };
  for (const auto& [line, ranks] : ranks_by_line)
    if (line != usual) add(line, ranks);
  add(usual, ranks_by_line[usual]);
  return sentence;
}

}  // namespace shampoo
