// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/dataset.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "examples/fashion/network/idx.h"
#include "examples/fashion/network/layout.h"

namespace fashion {

namespace {

/// The file itself, or its gzipped form.
std::filesystem::path find(const std::filesystem::path& folder, const std::string& name) {
  if (std::filesystem::exists(folder / name)) return folder / name;
  if (std::filesystem::exists(folder / (name + ".gz"))) return folder / (name + ".gz");
  throw std::runtime_error((folder / name).string() + ": there is no such file, nor one with .gz");
}

LabelledImages read(const std::filesystem::path& folder, const std::string& prefix) {
  const auto image_file = find(folder, prefix + "-images-idx3-ubyte");
  const auto label_file = find(folder, prefix + "-labels-idx1-ubyte");
  IdxArray images = read_idx(image_file, 3);
  IdxArray labels = read_idx(label_file, 1);
  if (images.sizes[1] != image_side || images.sizes[2] != image_side)
    throw std::runtime_error(image_file.string() + ": images must be 28 x 28, they are " +
                             std::to_string(images.sizes[1]) + " x " +
                             std::to_string(images.sizes[2]));
  if (images.sizes[0] != labels.sizes[0])
    throw std::runtime_error(label_file.string() + ": " + std::to_string(labels.sizes[0]) +
                             " labels for " + std::to_string(images.sizes[0]) + " images");
  if (const int largest = *std::max_element(labels.bytes.begin(), labels.bytes.end());
      largest >= classes)
    throw std::runtime_error(label_file.string() + ": labels must be from 0 to 9, one is " +
                             std::to_string(largest));
  return {std::move(images.bytes), std::move(labels.bytes)};
}

}  // namespace

Dataset read_dataset(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    throw std::runtime_error(folder.string() +
                             ": there is no such folder; install the Debian package "
                             "dataset-fashion-mnist or name another folder with --data");
  return {read(folder, "train"), read(folder, "t10k")};
}

Normalisation::Normalisation(const LabelledImages& images) {
  std::array<double, 256> count{};
  for (const std::uint8_t pixel : images.pixels) ++count[pixel];
  const auto total = static_cast<double>(images.pixels.size());
  double variance = 0;
  for (int shade = 0; shade < 256; ++shade) mean_ += count[shade] * (shade / 255.0) / total;
  for (int shade = 0; shade < 256; ++shade)
    variance += count[shade] * std::pow(shade / 255.0 - mean_, 2) / total;
  if (variance > 0) deviation_ = std::sqrt(variance);
  for (int shade = 0; shade < 256; ++shade)
    values_[shade] = static_cast<float>((shade / 255.0 - mean_) / deviation_);
}

void Normalisation::apply(std::span<const std::uint8_t> pixels, float* to) const {
  for (std::size_t i = 0; i < pixels.size(); ++i) to[i] = values_[pixels[i]];
}

}  // namespace fashion
