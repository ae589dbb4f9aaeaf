// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/identity.h"

#include <charconv>
#include <iterator>
#include <optional>
#include <stdexcept>

namespace gpt {

namespace {

/// The shortest text that is this number.
template <typename Number>
std::string text_of(Number number) {
  char text[32];
  return {text, std::to_chars(text, std::end(text), number).ptr};
}

template <typename Number>
std::string text_of(const std::optional<Number>& number) {
  return number ? text_of(*number) : "unset";
}

std::string text_of(const Text& text) {
  return text_of(text.train().size() + text.held_out().size()) + " bytes with checksum " +
         text_of(text.checksum());
}

}  // namespace

Identity identity(const Text& text, const Task& task, const Attempt& attempt) {
  const Settings& settings = attempt.settings;
  return {{"--text", text_of(text)},
          {"--layers", text_of(task.size.layers)},
          {"--width", text_of(task.size.width)},
          {"--heads", text_of(task.size.heads)},
          {"--context", text_of(task.size.context)},
          {"--batch", text_of(task.batch)},
          {"--precision", task.bfloat16 ? "bf16" : "fp32"},
          {"--clip", text_of(task.clip)},
          {"--seed", text_of(attempt.seed)},
          {"--rate", text_of(peak_rate(*attempt.method, settings))},
          {"--embedding-rate", text_of(settings.embedding_rate)},
          {"--schedule", settings.schedule},
          {"--warm-up", text_of(settings.warm_up)},
          {"--steps", text_of(settings.steps)},
          {"--weight-decay", text_of(settings.weight_decay)},
          {"--beta2", text_of(settings.beta2)},
          {"--grafting", settings.grafting},
          {"--block", text_of(settings.block)},
          {"--refresh", text_of(settings.refresh)}};
}

void require_same(const Identity& saved, const Identity& asked,
                  const std::filesystem::path& folder) {
  for (const auto& [option, value] : asked)
    if (const auto& other = saved.at(option); other != value)
      throw std::invalid_argument(
          "--checkpoint: " + folder.string() + " has checkpoints of a run with " + option + " " +
          std::get<std::string>(other) + ", not " + std::get<std::string>(value));
}

}  // namespace gpt
