// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/transports/conformance.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "distributor/communicator.h"

namespace shampoo::test {

namespace {

using Counts = std::vector<std::int64_t>;

/// The byte number `i` that rank `from` sends to rank `to`.
char byte(int from, int to, std::int64_t i) {
  return static_cast<char>(from * 31 + to * 7 + i * 13 + (i >> 8));
}

/// Adds the first `count` of them.
void append(std::vector<char>& bytes, int from, int to, std::int64_t count) {
  constexpr std::int64_t period = 1 << 16;  // sanitizers are slow where bytes come one by one
  std::vector<char> some(static_cast<std::size_t>(std::min(count, period)));
  for (std::size_t i = 0; i < some.size(); ++i) some[i] = byte(from, to, i);
  for (; count > period; count -= period) bytes.insert(bytes.end(), some.begin(), some.end());
  bytes.insert(bytes.end(), some.begin(), some.begin() + count);
}

std::int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Context of every check.
struct Bench {
  Communicator& ranks;
  LeasedMemory& memory;

  template <typename T>
  Leased<T> copy(std::vector<T> numbers) const {
    return {memory, std::move(numbers)};
  }
  BufferLease lease(std::shared_ptr<const void> keep_alive = nullptr) const {
    return {memory.stream(), std::move(keep_alive)};
  }
};

/// Rank r contributes counts[r] bytes.
void gather(const Bench& bench, const Counts& counts) {
  Communicator& ranks = bench.ranks;
  std::vector<char> own, all;
  for (int r = 0; r < ranks.size(); ++r) {
    append(all, r, 0, counts[r]);
    if (r == ranks.rank()) append(own, r, 0, counts[r]);
    own.resize(all.size());
  }
  Leased<char> gathered = bench.copy(std::move(own));
  ranks.all_gather(gathered.data(), counts, bench.lease()).wait();
  gathered.read();
  require(gathered.host == all, "all_gather: a byte is wrong");
}

void gathers(const Bench& bench) {
  const int size = bench.ranks.size();
  Counts counts(static_cast<std::size_t>(size), 5);
  gather(bench, counts);
  for (int r = 0; r < size; ++r) counts[r] = r % 2 == 0 ? 0 : 3 * r + 1;
  gather(bench, counts);
  for (int r = 0; r < size; ++r) counts[r] = r == size - 1 ? 1021 : 0;
  gather(bench, counts);
  gather(bench, Counts(counts.size(), 0));
  for (int r = 0; r < size; ++r) counts[r] = (20 << 20) / size + r;
  gather(bench, counts);
}

/// Two at a time, waited for in the other order, with buffers of their own.
void gathers_at_once(const Bench& bench) {
  Communicator& ranks = bench.ranks;
  const Counts counts(static_cast<std::size_t>(ranks.size()), 1);
  Leased<char> one = bench.copy(std::vector<char>(counts.size(), byte(ranks.rank(), 1, 0)));
  Leased<char> two = bench.copy(std::vector<char>(counts.size(), byte(ranks.rank(), 2, 0)));
  const auto keep_alive = std::make_shared<const int>(0);
  CollectiveHandle first = ranks.all_gather(one.data(), counts, bench.lease(keep_alive));
  CollectiveHandle second = ranks.all_gather(two.data(), counts, bench.lease(keep_alive));
  second.wait();
  first.wait();
  one.read();
  two.read();
  for (int r = 0; r < ranks.size(); ++r)
    require(one.host[r] == byte(r, 1, 0) && two.host[r] == byte(r, 2, 0),
            "two at once: a byte is wrong");
  ranks.barrier(bench.lease()).wait();  // a lease may end as late as here
  require(keep_alive.use_count() == 1, "a completed collective holds its lease");
}

void exchange(const Bench& bench, int unit) {
  Communicator& ranks = bench.ranks;
  const auto bytes = [&](int from, int to) { return (from + 2 * to) % 3 * unit; };
  Counts send_counts, receive_counts;
  std::vector<char> sent, expected;
  for (int r = 0; r < ranks.size(); ++r) {
    send_counts.push_back(bytes(ranks.rank(), r));
    receive_counts.push_back(bytes(r, ranks.rank()));
    append(sent, ranks.rank(), r, send_counts[r]);
    append(expected, r, ranks.rank(), receive_counts[r]);
  }
  Leased<char> send = bench.copy(std::move(sent));
  Leased<char> received = bench.copy(std::vector<char>(expected.size()));
  ranks.all_to_all(send.data(), send_counts, received.data(), receive_counts, bench.lease()).wait();
  received.read();
  require(received.host == expected, "all_to_all: a byte is wrong");
}

void broadcasts(const Bench& bench) {
  Communicator& ranks = bench.ranks;
  for (int root = 0; root < ranks.size(); ++root)
    for (const std::int64_t bytes : {0, 1, 70'001}) {
      std::vector<char> sent;
      append(sent, root, 3, bytes);
      Leased<char> data = bench.copy(ranks.rank() == root ? sent : std::vector<char>(sent.size()));
      ranks.broadcast(data.data(), bytes, root, bench.lease()).wait();
      data.read();
      require(data.host == sent, "broadcast: a byte is wrong");
    }
  ranks.barrier(bench.lease()).wait();
}

void broadcasts_tensors(const Bench& bench) {
  Communicator& ranks = bench.ranks;
  const int root = ranks.size() - 1;
  const auto mine = [&](float base) {
    return bench.copy(std::vector<float>(3, base + static_cast<float>(ranks.rank())));
  };
  Leased<float> first = mine(100), none = bench.copy(std::vector<float>(1, 7)), second = mine(200);
  ranks.broadcast({{first.data(), 3}, {none.data(), 0}, {second.data(), 2}}, root,
                  bench.lease().stream);
  first.read();
  second.read();
  const auto last = static_cast<float>(root), own = static_cast<float>(ranks.rank());
  require(first.host == std::vector<float>(3, 100 + last), "broadcast of tensors: the first");
  require(second.host == std::vector<float>{200 + last, 200 + last, 200 + own},
          "broadcast of tensors: the second, of which two elements are sent");
}

void splits_reversed(const Bench& bench) {
  Communicator& ranks = bench.ranks;
  const int color = ranks.rank() % 3 == 2 ? -1 : ranks.rank() % 2;
  const auto part = ranks.split(color, -ranks.rank());
  require((part != nullptr) == (color >= 0), "split: only a negative color belongs to no part");
  if (!part) return;
  Counts places(static_cast<std::size_t>(part->size()), sizeof(std::int64_t));
  Leased<std::int64_t> members = bench.copy(Counts(places.size(), ranks.rank()));
  part->all_gather(members.data(), places, bench.lease()).wait();
  members.read();
  for (std::size_t i = 0; i < members.host.size(); ++i) {
    require(members.host[i] % 2 == color, "split: a rank of another color");
    require(i == 0 || members.host[i] < members.host[i - 1],
            "split: the key does not decide the order");
  }
  require(part->deadline() == ranks.deadline(), "split: another deadline");
  require(part->local_rank() < part->size(), "split: the local rank is out of range");
  const auto inner = part->split(0, 0);
  inner->barrier(bench.lease()).wait();
}

template <typename Call>
void refuses(const Call& call, const char* what) {
  try {
    call();
  } catch (const std::invalid_argument&) {
    return;
  }
  require(false, std::string("not refused: ") + what);
}

void wrong_arguments(Communicator& ranks) {
  char data = 0;
  const auto size = static_cast<std::size_t>(ranks.size());
  const Counts few(size - 1, 0), negative(size, -1), zeros(size, 0);
  refuses([&] { (void)ranks.all_gather(&data, few); }, "too few counts");
  refuses([&] { (void)ranks.all_gather(&data, negative); }, "a negative count");
  refuses([&] { (void)ranks.all_to_all(&data, zeros, &data, few); }, "too few counts to receive");
  refuses([&] { (void)ranks.broadcast(&data, 1, ranks.size()); }, "a root that is none");
  refuses([&] { (void)ranks.broadcast(&data, -1, 0); }, "negative bytes");
  refuses([&] { ranks.broadcast({{nullptr, 2}}); }, "a tensor without data");
  refuses([&] { ranks.set_deadline(std::chrono::milliseconds(0)); }, "no deadline");
}

class Checksum {
 public:
  void add(const void* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      sum_ = (sum_ ^ static_cast<const unsigned char*>(data)[i]) * 1'099'511'628'211u;
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 14'695'981'039'346'656'037u;
};

/// Numbers whose sum depends on the order of summing.
template <typename Number>
std::vector<Number> numbers(int rank, std::size_t count) {
  std::vector<Number> made(count);
  std::uint64_t state = 88'172'645'463'325'252u + static_cast<std::uint64_t>(rank) * 7919;
  for (Number& number : made) {
    state = state * 6'364'136'223'846'793'005u + 1'442'695'040'888'963'407u;
    const auto random = static_cast<double>(state >> 33) / static_cast<double>(1u << 30) - 1;
    number = static_cast<Number>(random * static_cast<double>(1 + state % 1000));
  }
  return made;
}

/// Bits of 16-bit numbers between -4 and 4, the same for both types.
std::vector<std::uint16_t> halves(int rank, std::size_t count) {
  std::vector<std::uint16_t> made(count);
  for (std::size_t i = 0; i < count; ++i)
    made[i] =
        static_cast<std::uint16_t>(0x3c00 + (i * 37 + static_cast<std::size_t>(rank) * 11) % 1024);
  return made;
}

std::uint64_t sums(const Bench& bench) {
  Communicator& ranks = bench.ranks;
  const StreamRef stream = bench.memory.stream();
  Checksum checksum;
  const auto add = [&](auto& leased) {
    leased.read();
    checksum.add(leased.host.data(), leased.host.size() * sizeof(leased.host[0]));
  };
  auto doubles = bench.copy(numbers<double>(ranks.rank(), 1001));
  ranks.all_reduce(doubles.data(), 1001, Type::float64, stream);
  add(doubles);
  for (const Type type : {Type::float16, Type::bfloat16}) {
    auto small = bench.copy(halves(ranks.rank(), 333));
    ranks.all_reduce(small.data(), 333, type, stream);
    add(small);
  }
  auto odd = bench.copy(numbers<float>(ranks.rank(), 4099));
  auto one = bench.copy(numbers<float>(ranks.rank() + 5, 1));
  auto half = bench.copy(halves(ranks.rank(), 17));
  const std::vector<TensorSpan> tensors{
      {odd.data(), 4099}, {half.data(), 17, Type::bfloat16}, {nullptr, 0}, {one.data(), 1}};
  ranks.average(tensors, stream);
  add(odd);
  add(half);
  add(one);

  Counts counts;
  for (int r = 0; r < ranks.size(); ++r) counts.push_back(r % 3 * 101);
  auto all = bench.copy(numbers<float>(ranks.rank(), static_cast<std::size_t>(total(counts))));
  auto own = bench.copy(std::vector<float>(static_cast<std::size_t>(counts[ranks.rank()])));
  ranks.reduce_scatter(all.data(), own.data(), counts, Type::float32, stream);
  add(own);
  return checksum.sum();
}

}  // namespace

void require(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error(std::string(what));
}

std::uint64_t conform(Communicator& ranks, bool splits) {
  LeasedMemory host;
  require(ranks.memory() == MemoryKind::host, "memory: not of the host");
  return conform(ranks, host, splits);
}

std::uint64_t conform(Communicator& ranks, LeasedMemory& memory, bool splits) {
  const Bench bench{ranks, memory};
  require(ranks.local_rank() >= 0 && ranks.local_rank() < ranks.size(), "local_rank");
  require(!ranks.description().empty(), "description");
  wrong_arguments(ranks);
  gathers(bench);
  gathers_at_once(bench);
  exchange(bench, 0);
  exchange(bench, 1);
  exchange(bench, 50'021);
  broadcasts(bench);
  broadcasts_tensors(bench);
  if (splits) splits_reversed(bench);
  return sums(bench);
}

std::uint64_t checksum_of_threads(int rank, int size) {
  std::uint64_t checksum = 0;
  run_ranks(size, [&](Communicator& ranks) {
    LeasedMemory host;
    const std::uint64_t mine = sums({ranks, host});
    if (ranks.rank() == rank) checksum = mine;
  });
  return checksum;
}

}  // namespace shampoo::test
