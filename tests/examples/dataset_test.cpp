// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/dataset.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>

#include "examples/fashion/network/batches.h"
#include "examples/fashion/network/idx.h"

namespace fashion {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes idx(const std::vector<std::uint32_t>& sizes, const Bytes& elements) {
  Bytes file{0, 0, 8, static_cast<std::uint8_t>(sizes.size())};
  for (const std::uint32_t size : sizes)
    for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<std::uint8_t>(size >> shift));
  file.insert(file.end(), elements.begin(), elements.end());
  return file;
}

Bytes pixels(int images) {
  Bytes bytes;
  for (int i = 0; i < images * 784; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 7 % 251));
  return bytes;
}

void write(const std::filesystem::path& file, const Bytes& bytes) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
}

void write_gzipped(const std::filesystem::path& file, const Bytes& bytes) {
  gzFile out = gzopen(file.c_str(), "wb");
  ASSERT_EQ(gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  gzclose(out);
}

// A folder of its own for every test, with three training images and two to test.
class FashionDataset : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::current_path() / "fashion-dataset-test" /
             ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    write(folder / "train-images-idx3-ubyte", idx({3, 28, 28}, pixels(3)));
    write(folder / "train-labels-idx1-ubyte", idx({3}, {9, 0, 4}));
    write(folder / "t10k-images-idx3-ubyte", idx({2, 28, 28}, pixels(2)));
    write(folder / "t10k-labels-idx1-ubyte", idx({2}, {1, 2}));
  }

  void TearDown() override { std::filesystem::remove_all(folder); }

  // The message with which reading fails.
  std::string failure() const {
    try {
      read_dataset(folder);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  void expect_failure(const std::string& file, const std::string& what) const {
    const std::string message = failure();
    EXPECT_NE(message.find((folder / file).string()), std::string::npos) << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
  }

  std::filesystem::path folder;
};

TEST_F(FashionDataset, ReadsPlainFiles) {
  const Dataset dataset = read_dataset(folder);

  EXPECT_EQ(dataset.train.pixels, pixels(3));
  EXPECT_EQ(dataset.train.labels, (Bytes{9, 0, 4}));
  EXPECT_EQ(dataset.test.pixels, pixels(2));
  EXPECT_EQ(dataset.test.labels, (Bytes{1, 2}));
}

TEST_F(FashionDataset, ReadsGzippedFilesBesidePlainOnes) {
  std::filesystem::remove(folder / "train-images-idx3-ubyte");
  write_gzipped(folder / "train-images-idx3-ubyte.gz", idx({3, 28, 28}, pixels(3)));

  EXPECT_EQ(read_dataset(folder).train.pixels, pixels(3));
}

TEST_F(FashionDataset, NamesAMissingFolder) {
  folder /= "nowhere";

  const std::string message = failure();

  EXPECT_NE(message.find(folder.string() + ": there is no such folder"), std::string::npos)
      << message;
}

TEST_F(FashionDataset, NamesAMissingFile) {
  std::filesystem::remove(folder / "t10k-labels-idx1-ubyte");

  expect_failure("t10k-labels-idx1-ubyte", "no such file");
}

TEST_F(FashionDataset, NamesATruncatedFile) {
  Bytes file = idx({3, 28, 28}, pixels(3));
  file.pop_back();
  write(folder / "train-images-idx3-ubyte", file);

  expect_failure("train-images-idx3-ubyte", "promises 2352 bytes, but 2351 follow");
}

TEST_F(FashionDataset, NamesAFileThatIsTooLong) {
  Bytes file = idx({3}, {9, 0, 4});
  file.push_back(1);
  write(folder / "train-labels-idx1-ubyte", file);

  expect_failure("train-labels-idx1-ubyte", "promises 3 bytes, but 4 follow");
}

TEST_F(FashionDataset, NamesATruncatedGzippedFile) {
  const auto file = folder / "t10k-images-idx3-ubyte.gz";
  std::filesystem::remove(folder / "t10k-images-idx3-ubyte");
  write_gzipped(file, idx({2, 28, 28}, pixels(2)));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 20);

  expect_failure("t10k-images-idx3-ubyte.gz", "end too early");
}

TEST_F(FashionDataset, NamesAFileThatEndsWithinItsHeader) {
  write(folder / "train-labels-idx1-ubyte", {0, 0, 8});

  expect_failure("train-labels-idx1-ubyte", "ends within its header");
}

TEST_F(FashionDataset, NamesAnEmptyFile) {
  write(folder / "train-labels-idx1-ubyte", {});

  expect_failure("train-labels-idx1-ubyte", "ends within its header");
}

TEST_F(FashionDataset, NamesAFileWithAWrongMagicNumber) {
  Bytes file = idx({3}, {9, 0, 4});
  file[2] = 13;  // floats
  write(folder / "train-labels-idx1-ubyte", file);

  expect_failure("train-labels-idx1-ubyte", "not an IDX file of bytes with 1 dimension");
}

TEST_F(FashionDataset, NamesImagesOfAnotherSize) {
  write(folder / "t10k-images-idx3-ubyte", idx({2, 14, 56}, pixels(2)));

  expect_failure("t10k-images-idx3-ubyte", "must be 28 x 28, they are 14 x 56");
}

TEST_F(FashionDataset, NamesLabelsThatAreTooMany) {
  write(folder / "t10k-labels-idx1-ubyte", idx({3}, {1, 2, 3}));

  expect_failure("t10k-labels-idx1-ubyte", "3 labels for 2 images");
}

TEST_F(FashionDataset, NamesALabelOutOfRange) {
  write(folder / "t10k-labels-idx1-ubyte", idx({2}, {1, 10}));

  expect_failure("t10k-labels-idx1-ubyte", "from 0 to 9, one is 10");
}

TEST_F(FashionDataset, RefusesSizesThatPromiseMoreThanAnyFileHolds) {
  write(folder / "t10k-images-idx3-ubyte", idx({0xffffffff, 0xffffffff, 0xffffffff}, pixels(2)));

  expect_failure("t10k-images-idx3-ubyte", "too large");
}

TEST_F(FashionDataset, RefusesNoImages) {
  write(folder / "t10k-images-idx3-ubyte", idx({0, 28, 28}, {}));

  expect_failure("t10k-images-idx3-ubyte", "holds nothing");
}

TEST_F(FashionDataset, NormalisedPixelsHaveMeanZeroAndDeviationOne) {
  const Dataset dataset = read_dataset(folder);
  const Normalisation normalisation(dataset.train);
  std::vector<float> values(dataset.train.pixels.size());

  normalisation.apply(dataset.train.pixels, values.data());

  double mean = 0, square = 0;
  const double count = static_cast<double>(values.size());
  for (const float value : values) mean += value / count;
  for (const float value : values) square += value * value / count;
  // Every value is rounded to float once; none is beyond 4.
  EXPECT_NEAR(mean, 0, 4 * 0x1p-24);
  EXPECT_NEAR(square, 1, 2 * 4 * 4 * 0x1p-24);
}

TEST_F(FashionDataset, EveryEpochShowsImagesOnceInAnOrderOfTheSeed) {
  write(folder / "train-images-idx3-ubyte", idx({7, 28, 28}, pixels(7)));
  write(folder / "train-labels-idx1-ubyte", idx({7}, {0, 1, 2, 3, 4, 5, 6}));
  const Dataset dataset = read_dataset(folder);
  const Normalisation normalisation(dataset.train);
  Batches batches(dataset.train, normalisation, 3, 5, {0, 3});
  Batches again(dataset.train, normalisation, 3, 5, {0, 3});

  EXPECT_EQ(batches.per_epoch(), 2);  // and the seventh image waits for the next epoch
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::multiset<int> seen;
    for (int batch = 0; batch < 2; ++batch) {
      batches.advance();
      again.advance();
      seen.insert(batches.labels().begin(), batches.labels().end());
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(batches.labels()[i], again.labels()[i]);
        std::vector<float> image(784);
        normalisation.apply(std::span(dataset.train.pixels).subspan(batches.labels()[i] * 784, 784),
                            image.data());
        EXPECT_TRUE(std::equal(image.begin(), image.end(), &batches.images()[i * 784]));
      }
    }
    EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 6u) << "epoch " << epoch;
  }
}

TEST_F(FashionDataset, ABatchCannotBeLargerThanTheTrainingSet) {
  const Dataset dataset = read_dataset(folder);
  const Normalisation normalisation(dataset.train);

  EXPECT_THROW(Batches(dataset.train, normalisation, 4, 1, {0, 4}), std::invalid_argument);
}

}  // namespace
}  // namespace fashion
