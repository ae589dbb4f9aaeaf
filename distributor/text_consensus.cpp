// SPDX-License-Identifier: Apache-2.0
#include "distributor/text_consensus.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <sstream>

#include "distributor/rank_list.h"
#include "kernels/buffer.h"

namespace shampoo {

namespace {

constexpr std::int64_t no_line = std::numeric_limits<std::int64_t>::max();

/// The first line of two texts that differs, as "number\nthe line of `own`".
std::string differing_line(const std::string& own, const std::string& other) {
  std::istringstream mine(own), theirs(other);
  std::string a, b;
  for (std::int64_t line = 0;; ++line) {
    const bool has_a = static_cast<bool>(std::getline(mine, a));
    const bool has_b = static_cast<bool>(std::getline(theirs, b));
    if (!has_a && !has_b) return std::to_string(no_line) + "\n";
    if (has_a != has_b || a != b) return std::to_string(line) + "\n" + (has_a ? a : "nothing");
  }
}

std::string line_of(const std::string& text, std::int64_t number) {
  std::istringstream lines(text);
  std::string line;
  for (std::int64_t i = 0; i <= number; ++i)
    if (!std::getline(lines, line)) return "nothing";
  return line;
}

BufferLease lent(const Backend& backend, const std::shared_ptr<kernels::Buffer>& buffer) {
  return {.stream = {backend.stream()}, .owner = buffer};
}

std::string broadcast_text(Backend& backend, Communicator& communicator, const std::string& own) {
  auto bytes = static_cast<std::int64_t>(own.size());
  const auto length = std::make_shared<kernels::Buffer>(backend, sizeof(bytes));
  backend.upload(length->data(), &bytes, sizeof(bytes));
  communicator.broadcast(length->data(), sizeof(bytes), 0, lent(backend, length)).wait();
  backend.download(&bytes, length->data(), sizeof(bytes));
  backend.synchronize();

  std::string text = communicator.rank() == 0 ? own : std::string();
  text.resize(static_cast<std::size_t>(bytes));
  const auto letters = std::make_shared<kernels::Buffer>(backend, text.size());
  if (bytes > 0) backend.upload(letters->data(), text.data(), text.size());
  communicator.broadcast(letters->data(), bytes, 0, lent(backend, letters)).wait();
  if (bytes > 0) backend.download(text.data(), letters->data(), text.size());
  backend.synchronize();
  return text;
}

}  // namespace

std::vector<std::string> gather_texts(Backend& backend, Communicator& communicator,
                                      const std::string& own) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  std::vector<std::int64_t> lengths(ranks);
  const auto all_lengths = std::make_shared<kernels::Buffer>(backend, ranks * sizeof(std::int64_t));
  const auto length = static_cast<std::int64_t>(own.size());
  backend.upload(static_cast<std::int64_t*>(all_lengths->data()) + rank, &length, sizeof(length));
  communicator
      .all_gather(all_lengths->data(), std::vector<std::int64_t>(ranks, sizeof(std::int64_t)),
                  lent(backend, all_lengths))
      .wait();
  backend.download(lengths.data(), all_lengths->data(), ranks * sizeof(std::int64_t));
  backend.synchronize();

  std::size_t total = 0, before = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r < rank) before += static_cast<std::size_t>(lengths[r]);
    total += static_cast<std::size_t>(lengths[r]);
  }
  std::string joined(total, '\0');
  const auto letters = std::make_shared<kernels::Buffer>(backend, total);
  if (!own.empty())
    backend.upload(static_cast<char*>(letters->data()) + before, own.data(), own.size());
  communicator.all_gather(letters->data(), lengths, lent(backend, letters)).wait();
  if (total > 0) backend.download(joined.data(), letters->data(), total);
  backend.synchronize();

  std::vector<std::string> texts;
  for (std::size_t r = 0, at = 0; r < ranks; at += static_cast<std::size_t>(lengths[r++]))
    texts.push_back(joined.substr(at, static_cast<std::size_t>(lengths[r])));
  return texts;
}

std::string first_difference(Backend& backend, Communicator& communicator, const std::string& own) {
  const std::string model = broadcast_text(backend, communicator, own);
  const std::vector<std::string> found =
      gather_texts(backend, communicator, differing_line(own, model));
  std::int64_t first = no_line;
  for (const std::string& text : found) first = std::min<std::int64_t>(first, std::stoll(text));
  if (first == no_line) return {};

  // Ranks whose first difference comes later agree with rank 0 here.
  const std::string usual = line_of(model, first);
  std::map<std::string, std::vector<int>> sayings;
  for (std::size_t r = 0; r < found.size(); ++r) {
    const bool differs = std::stoll(found[r]) == first;
    sayings[differs ? found[r].substr(found[r].find('\n') + 1) : usual].push_back(
        static_cast<int>(r));
  }
  std::string sentence;
  const auto add = [&](const std::string& line, const std::vector<int>& ranks) {
    if (!sentence.empty()) sentence += ", ";
    sentence += rank_list(ranks) + (ranks.size() == 1 ? " has '" : " have '") + line + "'";
  };
  for (const auto& [line, ranks] : sayings)
    if (line != usual) add(line, ranks);
  add(usual, sayings[usual]);
  return sentence;
}

}  // namespace shampoo
