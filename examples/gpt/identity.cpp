// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/identity.h"

namespace gpt {

namespace {

using examples::text_of;

std::string text_of(const Text& text) {
  return text_of(text.train().size() + text.held_out().size()) + " bytes with checksum " +
         text_of(text.checksum());
}

}  // namespace

examples::Identity identity(const Text& text, const Task& task, const Attempt& attempt) {
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

}  // namespace gpt
