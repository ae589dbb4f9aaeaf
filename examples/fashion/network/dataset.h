// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace fashion {

/// Grey images of 28 x 28 pixels, one after the other, and the class of each, 0 ... 9.
struct LabelledImages {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  int count() const { return static_cast<int>(labels.size()); }
};

struct Dataset {
  LabelledImages train;
  LabelledImages test;
};

/// Reads the four files of MNIST and its successors, train-images-idx3-ubyte and so on, each either
/// as it is or gzipped (.gz). Throws std::runtime_error that names the file and what is wrong.
Dataset read_dataset(const std::filesystem::path& folder);

/// Where the Debian package dataset-fashion-mnist puts its files.
inline constexpr const char* debian_folder = "/usr/share/datasets/fashion-mnist";

/// Turns pixels into numbers: divided by 255, then shifted and scaled so that all pixels of the
/// images it was made from have mean 0 and deviation 1.
class Normalisation {
 public:
  explicit Normalisation(const LabelledImages& images);

  double mean() const { return mean_; }
  double deviation() const { return deviation_; }

  void apply(std::span<const std::uint8_t> pixels, float* to) const;

 private:
  double mean_ = 0;
  double deviation_ = 1;
  std::array<float, 256> values_{};  ///< what becomes of each of the 256 shades
};

}  // namespace fashion
