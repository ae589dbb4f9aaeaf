// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/replica.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "examples/fashion/network/share.h"
#include "examples/fashion/random.h"

namespace gpt {

namespace {

constexpr int slice_count = 4;

}  // namespace

Replica::Replica(const Layout& layout, int threads, std::int64_t most_sequences)
    : layout_(layout), most_sequences_(most_sequences), workers_(threads) {
  const std::int64_t each = (most_sequences + slice_count - 1) / slice_count;
  for (int i = 0; i < slice_count; ++i)
    slices_.push_back({Transformer<float>(layout, each),
                       std::vector<float>(static_cast<std::size_t>(layout.elements()))});
}

template <typename Body>
double Replica::in_slices(std::span<const std::uint8_t> windows, const Body& body) {
  const std::int64_t length = layout_.size().context + 1;
  const auto count = static_cast<int>(std::ssize(windows) / length);
  workers_.run(slice_count, [&](int i) {
    const fashion::Share own = fashion::share(count, i, slice_count);
    slices_[i].sum = 0;
    if (own.count > 0) body(slices_[i], windows.subspan(own.first * length, own.count * length));
  });
  double sum = 0;
  for (const Slice& slice : slices_) sum += slice.sum;
  return sum;
}

double Replica::cross_entropy(const std::vector<float>& values,
                              std::span<const std::uint8_t> windows) {
  const auto most = static_cast<std::size_t>(most_sequences_ * (layout_.size().context + 1));
  double sum = 0;
  for (; !windows.empty(); windows = windows.subspan(std::min(most, windows.size())))
    sum += in_slices(windows.first(std::min(most, windows.size())), [&](Slice& slice, auto part) {
      slice.model.run(values.data(), part);
      slice.sum = slice.model.cross_entropy();
    });
  return sum;
}

double Replica::differentiate(const std::vector<float>& values,
                              std::span<const std::uint8_t> windows, float scale,
                              std::vector<float>& gradients) {
  for (Slice& slice : slices_) std::ranges::fill(slice.gradients, 0.0f);
  const double sum = in_slices(windows, [&](Slice& slice, auto part) {
    slice.model.run(values.data(), part);
    slice.sum = slice.model.cross_entropy();
    slice.model.differentiate(values.data(), scale, slice.gradients.data());
  });
  const int count = static_cast<int>(gradients.size());
  workers_.run(workers_.threads(), [&](int thread) {
    const fashion::Share own = fashion::share(count, thread, workers_.threads());
    for (int i = own.first; i < own.first + own.count; ++i) {
      gradients[i] = 0;
      for (const Slice& slice : slices_) gradients[i] += slice.gradients[i];
    }
  });
  return sum;
}

std::vector<std::uint8_t> Replica::continuation(const std::vector<float>& values,
                                                std::vector<std::uint8_t> text, int count,
                                                std::uint64_t seed) {
  fashion::Random random(seed);
  const std::size_t begin = text.size();
  Transformer<float>& model = slices_.front().model;
  while (text.size() < begin + count) {
    // The last byte of the window is the one in question.
    text.push_back(0);
    model.run(values.data(), std::span(text).last(layout_.size().context + 1));
    const auto logits = model.last_logits();
    const float largest = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
    double left = sum * random.uniform();
    std::uint8_t byte = 0;
    while (byte < vocabulary - 1 &&
           (left -= std::exp(static_cast<double>(logits[byte] - largest))) >= 0)
      ++byte;
    text.back() = byte;
  }
  text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin));
  return text;
}

}  // namespace gpt
