// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/agreement.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/checksum.h"

namespace fashion {

namespace {

std::uint64_t own_checksum(Network<float>& network) {
  auto tensors = network.tensors();
  std::ranges::sort(tensors, {}, &Network<float>::Tensor::name);
  std::uint64_t sum = examples::checksum({});
  for (const auto& tensor : tensors) {
    const auto count = std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1},
                                       std::multiplies<>());
    sum = examples::checksum(std::as_bytes(std::span<const float>(tensor.value, count)), sum);
  }
  return sum;
}

}  // namespace

std::uint64_t agreed_checksum(shampoo::Communicator& ranks, Network<float>& network) {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(ranks.size()));
  sums[ranks.rank()] = own_checksum(network);
  const std::vector<std::int64_t> counts(sums.size(), sizeof(std::uint64_t));
  ranks.all_gather(sums.data(), counts).wait();
  for (std::size_t r = 1; r < sums.size(); ++r)
    if (sums[r] != sums[0])
      throw std::runtime_error("the parameters of rank " + std::to_string(r) +
                               " differ from those of rank 0");
  return sums[0];
}

}  // namespace fashion
