// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <string>

namespace fashion {

namespace {

/// A file of bytes; zlib reads plain files as they are.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& file)
      : name_(file.string()), file_(gzopen(name_.c_str(), "rb"), gzclose) {
    if (!file_) fail("cannot be opened");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(name_ + ": " + what);
  }

  /// Up to `count` bytes; fewer only at the end of the file.
  int read(std::uint8_t* to, int count) {
    const int got = gzread(file_.get(), to, static_cast<unsigned>(count));
    int status = Z_OK;
    const char* message = gzerror(file_.get(), &status);
    if (status == Z_BUF_ERROR) fail("the compressed data end too early");
    if (got < 0 || status < 0) fail(std::string("cannot be read (") + message + ")");
    return got;
  }

 private:
  std::string name_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

std::int64_t big_endian(const std::uint8_t* bytes) {
  return std::int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& file, int order) {
  Reader reader(file);
  // Two zero bytes, the type (8: unsigned bytes), the number of dimensions, then every size.
  std::vector<std::uint8_t> header(4 + std::int64_t{4} * order);
  if (reader.read(header.data(), static_cast<int>(header.size())) < static_cast<int>(header.size()))
    reader.fail("ends within its header");
  if (header[0] != 0 || header[1] != 0 || header[2] != 8 || header[3] != order)
    reader.fail("is not an IDX file of bytes with " + std::to_string(order) + " dimension" +
                (order == 1 ? "" : "s"));

  IdxArray array;
  std::int64_t promised = 1;
  for (std::int64_t i = 0; i < order; ++i) {
    array.sizes.push_back(big_endian(header.data() + 4 + 4 * i));
    if (array.sizes.back() == 0) reader.fail("holds nothing");
    if (promised > (std::int64_t{1} << 40) / array.sizes.back()) reader.fail("is too large");
    promised *= array.sizes.back();
  }

  std::array<std::uint8_t, 1 << 16> piece;
  while (const int got = reader.read(piece.data(), static_cast<int>(piece.size())))
    array.bytes.insert(array.bytes.end(), piece.data(), piece.data() + got);
  if (static_cast<std::int64_t>(array.bytes.size()) != promised)
    reader.fail("its header promises " + std::to_string(promised) + " bytes, but " +
                std::to_string(array.bytes.size()) + " follow");
  return array;
}

}  // namespace fashion
