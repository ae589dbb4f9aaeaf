// SPDX-License-Identifier: Apache-2.0
#include "distributor/reduction.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <type_traits>

#include "distributor/communicator.h"
#include "kernels/rules/stored.h"

namespace shampoo {

namespace {

/// Numbers that are summed at a time: the sums stay in the first-level cache.
constexpr std::int64_t chunk = 1024;

/// Bytes that average() and all_reduce() send at a time.
constexpr std::int64_t round_bytes = std::int64_t{64} << 20;

template <typename Stored>
void sum_typed(const Stored* parts, int n, std::int64_t count, double divisor, Stored* sum) {
  using Real = std::conditional_t<std::is_same_v<Stored, double>, double, float>;
  std::array<Real, chunk> sums;
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t some = std::min(chunk, count - first);
    for (std::int64_t i = 0; i < some; ++i) sums[i] = kernels::real<Real>(parts[first + i]);
    for (int part = 1; part < n; ++part) {
      const Stored* const numbers = parts + part * count + first;
      for (std::int64_t i = 0; i < some; ++i) sums[i] += kernels::real<Real>(numbers[i]);
    }
    for (std::int64_t i = 0; i < some; ++i)
      sum[first + i] = kernels::stored<Stored>(sums[i] / static_cast<Real>(divisor));
  }
}

class HostSumming final : public Reducer {
 public:
  char* packed(std::int64_t bytes) override { return grown(packed_, bytes); }
  char* received(std::int64_t bytes) override { return grown(received_, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes, StreamRef) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void sum_in_order(const void* parts, int n, std::int64_t count, Type type, double divisor,
                    void* sum, StreamRef) override {
    shampoo::sum_in_order(parts, n, count, type, divisor, sum);
  }

 private:
  static char* grown(std::vector<char>& memory, std::int64_t bytes) {
    memory.resize(std::max(memory.size(), static_cast<std::size_t>(bytes)));
    return memory.data();
  }

  std::vector<char> packed_, received_;
};

std::int64_t bytes_of(const Numbers& numbers) {
  return numbers.count * static_cast<std::int64_t>(size_of(numbers.type));
}

}  // namespace

void sum_in_order(const void* parts, int n, std::int64_t count, Type type, double divisor,
                  void* sum) {
  kernels::with_type(type, [&]<typename Stored>(Stored*) {
    sum_typed(static_cast<const Stored*>(parts), n, count, divisor, static_cast<Stored*>(sum));
  });
}

void Communicator::check_host(std::string_view operation) const {
  if (memory() != MemoryKind::host)
    throw std::invalid_argument(std::string(operation) +
                                ": works on host memory only, and the communicator does not");
}

std::shared_ptr<Reducer> Communicator::make_summing() {
  check_host("sums");
  return std::make_shared<HostSumming>();
}

const std::shared_ptr<Reducer>& Communicator::summing() {
  if (!summing_) summing_ = make_summing();
  return summing_;
}

void Communicator::reduce_scatter(const void* all, void* own, std::span<const std::int64_t> counts,
                                  Type type, StreamRef stream) {
  check_counts("reduce_scatter", counts);
  const std::shared_ptr<Reducer>& sums = summing();
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  std::vector<std::int64_t> send(counts.begin(), counts.end());
  for (std::int64_t& count : send) count *= bytes;
  const std::vector<std::int64_t> receive(send.size(), send[rank()]);
  void* const received = sums->received(size() * send[rank()]);
  all_to_all(all, send, received, receive, {stream, sums}).wait();
  sums->sum_in_order(received, size(), counts[rank()], type, 1, own, stream);
}

void Communicator::all_reduce(void* numbers, std::int64_t count, Type type, StreamRef stream) {
  const Numbers all{numbers, count, type};
  sum({&all, 1}, "all_reduce", 1, stream);
}

void Communicator::average(std::span<const Numbers> tensors, StreamRef stream) {
  sum(tensors, "average", size(), stream);
}

/// Numbers of one type travel together, packed, so that the collectives do not grow with tensors.
void Communicator::sum(std::span<const Numbers> tensors, std::string_view operation, double divisor,
                       StreamRef stream) {
  for (const Numbers& tensor : tensors)
    if (tensor.count < 0 || (tensor.count > 0 && !tensor.data))
      throw std::invalid_argument(std::string(operation) +
                                  ": a tensor must have a count of at least 0, got " +
                                  std::to_string(tensor.count) + ", and memory for it");
  if (size() == 1) return;
  const std::shared_ptr<Reducer>& sums = summing();
  for (const Type type : {Type::float64, Type::float32, Type::bfloat16, Type::float16}) {
    std::int64_t left = 0;
    for (const Numbers& tensor : tensors) left += tensor.type == type ? bytes_of(tensor) : 0;
    std::size_t next = 0;
    for (std::int64_t inside = 0; left > 0;) {
      const std::int64_t bytes = std::min(left, round_bytes);
      char* const packed = sums->packed(bytes);
      // Packs, and after the sum unpacks, the same stretch of tensors.
      const auto walk = [&](std::size_t& at, std::int64_t& from, const auto& copy) {
        for (std::int64_t done = 0; done < bytes; ++at, from = 0) {
          if (tensors[at].type != type || tensors[at].count == 0) continue;
          const std::int64_t some = std::min(bytes_of(tensors[at]) - from, bytes - done);
          copy(packed + done, static_cast<char*>(tensors[at].data) + from, some);
          done += some;
          if (from + some < bytes_of(tensors[at])) {
            from += some;
            return;
          }
        }
      };
      std::size_t start = next;
      std::int64_t start_inside = inside;
      walk(start, start_inside,
           [&](char* here, char* tensor, std::int64_t n) { sums->copy(here, tensor, n, stream); });
      sum_packed(bytes, type, divisor, stream);
      walk(next, inside,
           [&](char* here, char* tensor, std::int64_t n) { sums->copy(tensor, here, n, stream); });
      left -= bytes;
    }
  }
}

void Communicator::sum_packed(std::int64_t bytes, Type type, double divisor, StreamRef stream) {
  const auto unit = static_cast<std::int64_t>(size_of(type));
  const std::int64_t count = bytes / unit;
  std::vector<std::int64_t> shares;
  for (int r = 0; r < size(); ++r)
    shares.push_back(((r + 1) * count / size() - r * count / size()) * unit);
  const std::int64_t own = shares.at(static_cast<std::size_t>(rank()));
  const std::vector<std::int64_t> receive(shares.size(), own);
  const std::shared_ptr<Reducer>& sums = summing();
  char* const packed = sums->packed(bytes);
  void* const received = sums->received(size() * own);
  all_to_all(packed, shares, received, receive, {stream, sums}).wait();
  const std::int64_t begin =
      std::accumulate(shares.begin(), shares.begin() + rank(), std::int64_t{0});
  sums->sum_in_order(received, size(), own / unit, type, divisor, packed + begin, stream);
  all_gather(packed, shares, {stream, sums}).wait();
}

}  // namespace shampoo
