// SPDX-License-Identifier: Apache-2.0
#include "distributor/reduction.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <type_traits>

#include "distributor/caller_name.h"
#include "distributor/transports/transport.h"
#include "grouping/hash.h"
#include "kernels/rules/stored.h"

namespace shampoo {

namespace {

/// Elements summed at a time: the partial sums stay in the L1 cache.
constexpr std::int64_t chunk = 1024;

void require_data(std::span<const TensorSpan> tensors, std::string_view operation) {
  constexpr std::int64_t most = std::int64_t{1} << 59;
  for (const TensorSpan& tensor : tensors) {
    if (tensor.type > Type::float16)
      throw std::invalid_argument(std::string(operation) +
                                  ": type must be float64, float32, bfloat16 or float16");
    if (tensor.count < 0 || tensor.count >= most || (tensor.count > 0 && !tensor.data))
      throw std::invalid_argument(std::string(operation) +
                                  ": a tensor must have a count in [0, 2^59) and, unless that is "
                                  "0, data; got count " +
                                  std::to_string(tensor.count));
  }
}

/// Bytes that average() and all_reduce() send per round: their scratch memory is twice that. Each
/// pair of ranks exchanges at least 256 KiB, so that bandwidth counts and not latency.
std::int64_t round_bytes(int ranks) {
  return std::max(std::int64_t{64} << 20, ranks * (std::int64_t{256} << 10));
}

/// Replaces a value for the time of a scope.
class Replaced {
 public:
  Replaced(std::uint64_t& value, std::uint64_t now) : value_(value), before_(value) { value = now; }
  ~Replaced() { value_ = before_; }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  std::uint64_t& value_;
  std::uint64_t before_;
};

template <typename Stored>
void ordered_sum_typed(const Stored* parts, int n, std::int64_t count, double divisor,
                       Stored* sum) {
  using Real = std::conditional_t<std::is_same_v<Stored, double>, double, float>;
  std::array<Real, chunk> sums;
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t some = std::min(chunk, count - first);
    for (std::int64_t i = 0; i < some; ++i) sums[i] = kernels::real<Real>(parts[first + i]);
    for (int part = 1; part < n; ++part) {
      const Stored* const elements = parts + part * count + first;
      for (std::int64_t i = 0; i < some; ++i) sums[i] += kernels::real<Real>(elements[i]);
    }
    for (std::int64_t i = 0; i < some; ++i)
      sum[first + i] = kernels::stored<Stored>(sums[i] / static_cast<Real>(divisor));
  }
}

class HostReducer final : public Reducer {
 public:
  char* packed(std::int64_t bytes) override { return grow(packed_, bytes); }
  char* received(std::int64_t bytes) override { return grow(received_, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes, StreamRef) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void ordered_sum(const void* parts, int n, std::int64_t count, Type type, double divisor,
                   void* sum, StreamRef) override {
    shampoo::ordered_sum(parts, n, count, type, divisor, sum);
  }

 private:
  static char* grow(std::vector<char>& memory, std::int64_t bytes) {
    memory.resize(std::max(memory.size(), static_cast<std::size_t>(bytes)));
    return memory.data();
  }

  std::vector<char> packed_, received_;
};

std::int64_t bytes_of(const TensorSpan& tensor) {
  return tensor.count * static_cast<std::int64_t>(size_of(tensor.type));
}

/// Position in the concatenation of all tensors of one type.
struct Cursor {
  std::size_t tensor = 0;
  std::int64_t offset = 0;  ///< in bytes
};

/// Calls copy(offset in the range, address in a tensor, bytes) for each contiguous run of the next
/// `bytes` bytes of the tensors of `type`, and returns the position behind them.
template <typename Copy>
Cursor for_each_run(std::span<const TensorSpan> tensors, Type type, Cursor at, std::int64_t bytes,
                    const Copy& copy) {
  for (std::int64_t done = 0; done < bytes;) {
    const TensorSpan& tensor = tensors[at.tensor];
    const std::int64_t left = tensor.type == type ? bytes_of(tensor) - at.offset : 0;
    const std::int64_t run = std::min(left, bytes - done);
    if (run > 0) copy(done, static_cast<char*>(tensor.data) + at.offset, run);
    done += run;
    if (run < left)
      at.offset += run;
    else
      at = {at.tensor + 1, 0};
  }
  return at;
}

}  // namespace

void ordered_sum(const void* parts, int n, std::int64_t count, Type type, double divisor,
                 void* sum) {
  kernels::with_type(type, [&]<typename Stored>(Stored*) {
    ordered_sum_typed(static_cast<const Stored*>(parts), n, count, divisor,
                      static_cast<Stored*>(sum));
  });
}

std::shared_ptr<Reducer> make_host_reducer() { return std::make_shared<HostReducer>(); }

const std::shared_ptr<Reducer>& Communicator::reducer(const void* data) {
  if (!reducer_) reducer_ = transport_->make_reducer(data);
  if (!reducer_ && memory() != MemoryKind::host)
    throw std::invalid_argument("reductions: this communicator supports them in host memory only");
  if (!reducer_) reducer_ = make_host_reducer();
  return reducer_;
}

void Communicator::reduce_scatter(const void* all, void* own, Counts counts, Type type,
                                  StreamRef stream) {
  check_counts("reduce_scatter", counts);
  const CallerName name(*this, "reduce_scatter");
  grouping::Hash arguments;
  arguments.add("reduce_scatter");
  arguments.add(static_cast<std::uint64_t>(type));
  arguments.add(std::as_bytes(counts));
  const Replaced reduction(reduction_, arguments.value());
  const std::shared_ptr<Reducer>& reducer = this->reducer(all);
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  std::vector<std::int64_t> send(counts.begin(), counts.end());
  for (std::int64_t& count : send) count *= bytes;
  reducer->begin(stream);
  const std::vector<std::int64_t> receive(send.size(), send[rank()]);
  void* const received = reducer->received(size() * send[rank()]);
  all_to_all(all, send, received, receive, {stream, reducer}).wait();
  reducer->ordered_sum(received, size(), counts[rank()], type, 1, own, stream);
  reducer->end(stream);
}

void Communicator::all_reduce(void* data, std::int64_t count, Type type, StreamRef stream) {
  const TensorSpan tensor{data, count, type};
  reduce({&tensor, 1}, "all_reduce", 1, stream);
}

void Communicator::broadcast(std::span<const TensorSpan> tensors, int root, StreamRef stream) {
  require_data(tensors, "broadcast");
  for (const TensorSpan& tensor : tensors)
    broadcast(tensor.data, bytes_of(tensor), root, BufferLease{stream}).wait();
}

void Communicator::average(std::span<const TensorSpan> tensors, StreamRef stream) {
  reduce(tensors, "average", size(), stream);
}

/// Packs tensors of one type, so that the number of collectives does not grow with the number of
/// tensors.
void Communicator::reduce(std::span<const TensorSpan> tensors, std::string_view operation,
                          double divisor, StreamRef stream) {
  require_data(tensors, operation);
  const auto first = std::ranges::find_if(tensors, [](const auto& t) { return t.count > 0; });
  if (size() == 1 || first == tensors.end()) return;
  const CallerName name(*this, operation);
  grouping::Hash arguments;
  arguments.add(operation);
  for (const TensorSpan& tensor : tensors) {
    if (tensor.count == 0) continue;
    arguments.add(static_cast<std::uint64_t>(tensor.type));
    arguments.add(static_cast<std::uint64_t>(tensor.count));
  }
  const Replaced reduction(reduction_, arguments.value());
  const std::shared_ptr<Reducer>& reducer = this->reducer(first->data);
  reducer->begin(stream);
  for (const Type type : {Type::float64, Type::float32, Type::bfloat16, Type::float16}) {
    std::int64_t left = 0;
    for (const TensorSpan& tensor : tensors) left += tensor.type == type ? bytes_of(tensor) : 0;
    for (Cursor at; left > 0;) {
      const std::int64_t bytes = std::min(left, round_bytes(size()));
      char* const packed = reducer->packed(bytes);
      for_each_run(tensors, type, at, bytes, [&](std::int64_t offset, char* tensor, auto run) {
        reducer->copy(packed + offset, tensor, run, stream);
      });
      reduce_packed(bytes, type, divisor, stream);
      at = for_each_run(tensors, type, at, bytes, [&](std::int64_t offset, char* tensor, auto run) {
        reducer->copy(tensor, packed + offset, run, stream);
      });
      left -= bytes;
    }
  }
  reducer->end(stream);
}

/// Each rank sums a share of the elements, then all gather the sums.
void Communicator::reduce_packed(std::int64_t bytes, Type type, double divisor, StreamRef stream) {
  const auto unit = static_cast<std::int64_t>(size_of(type));
  const std::int64_t count = bytes / unit;
  std::vector<std::int64_t> shares;
  for (int r = 0; r < size(); ++r)
    shares.push_back(((r + 1) * count / size() - r * count / size()) * unit);
  const std::int64_t own = shares.at(static_cast<std::size_t>(rank()));
  const std::vector<std::int64_t> receive(shares.size(), own);
  const std::shared_ptr<Reducer>& reducer = reducer_;
  char* const packed = reducer->packed(bytes);
  void* const received = reducer->received(size() * own);
  all_to_all(packed, shares, received, receive, {stream, reducer}).wait();
  const std::int64_t begin =
      std::accumulate(shares.begin(), shares.begin() + rank(), std::int64_t{0});
  reducer->ordered_sum(received, size(), own / unit, type, divisor, packed + begin, stream);
  all_gather(packed, shares, {stream, reducer}).wait();
}

}  // namespace shampoo
