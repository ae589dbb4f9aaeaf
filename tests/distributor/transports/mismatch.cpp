// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/transports/mismatch.h"

#include <chrono>

#include "distributor/rank_list.h"

namespace shampoo::test {
namespace {

using Counts = std::vector<std::int64_t>;

// The buffer of a thread outlives calls that are only queued.
thread_local std::vector<float> call_memory(1 << 16);

/// An all_gather of so many bytes from each of three ranks.
void gather(Communicator& ranks, const Counts& counts) {
  ranks.all_gather(call_memory.data(), counts).wait();
}

void average(Communicator& ranks, const Counts& counts) {
  std::vector<TensorSpan> tensors;
  float* next = call_memory.data();
  for (const std::int64_t count : counts) {
    tensors.push_back({next, count});
    next += count;
  }
  ranks.average(tensors);
}

bool differs(const Communicator& ranks) { return ranks.rank() == 1; }

const std::vector<Mismatch> all_mismatches{
    {"all_gather_against_average",
     [](Communicator& r) {
       differs(r) ? gather(r, {64, 64, 64}) : average(r, {48});
     },
     {"rank 1 is in all_gather of 192 bytes (collective 2)",
      "ranks 0 and 2 are in all_to_all of 192 bytes (collective 2, average)"}},
    {"average_against_all_gather",
     [](Communicator& r) {
       differs(r) ? average(r, {48}) : gather(r, {64, 64, 64});
     },
     {"rank 1 is in all_to_all of 192 bytes (collective 2, average)",
      "ranks 0 and 2 are in all_gather of 192 bytes (collective 2)"}},
    {"barrier_against_broadcast",
     [](Communicator& r) {
       differs(r) ? r.barrier().wait() : r.broadcast(call_memory.data(), 1, 0).wait();
     },
     {"rank 1 is in barrier (collective 2)", "in broadcast of 1 byte (collective 2)"}},
    {"broadcasts_of_two_roots",
     [](Communicator& r) { r.broadcast(call_memory.data(), 1, differs(r) ? 1 : 0).wait(); },
     {"rank 1 is in broadcast", "in broadcast of 1 byte (collective 2) with other sizes"}},
    {"smaller_all_gather",
     [](Communicator& r) { gather(r, Counts(3, differs(r) ? 64 : 4096)); },
     {"rank 1 is in all_gather of 192 bytes (collective 2)",
      "ranks 0 and 2 are in all_gather of 12288 bytes (collective 2)"}},
    {"larger_all_gather",
     [](Communicator& r) { gather(r, Counts(3, differs(r) ? 4096 : 64)); },
     {"rank 1 is in all_gather of 12288 bytes (collective 2)",
      "ranks 0 and 2 are in all_gather of 192 bytes (collective 2)"}},
    {"other_shares_of_an_all_gather",
     [](Communicator& r) {
       gather(r, differs(r) ? Counts{10, 20, 30} : Counts{30, 20, 10});
     },
     {"rank 1 is in all_gather of 60 bytes", "ranks 0 and 2 are in all_gather of 60 bytes",
      "with other sizes"}},
    {"other_tensor_to_average",
     [](Communicator& r) {
       average(r, differs(r) ? Counts{100, 30} : Counts{100, 31});
     },
     {"rank 1 is in all_to_all of 520 bytes (collective 2, average)",
      "ranks 0 and 2 are in all_to_all of 524 bytes (collective 2, average)"}},
    {"other_order_to_average",
     [](Communicator& r) {
       average(r, differs(r) ? Counts{30, 100} : Counts{100, 30});
     },
     {"rank 1 is in all_to_all of 520 bytes (collective 2, average)",
      "ranks 0 and 2 are in all_to_all of 520 bytes (collective 2, average)", "with other sizes"}},
    {"all_reduce_against_average",
     [](Communicator& r) {
       differs(r) ? r.all_reduce(call_memory.data(), 1, Type::float32)
                  : r.average({{call_memory.data(), 1}});
     },
     {"(collective 2, all_reduce)", "(collective 2, average)"}},
};

}  // namespace

std::span<const Mismatch> mismatches() { return all_mismatches; }

std::string check_mismatch(Communicator& ranks, const Mismatch& mismatch,
                           std::chrono::milliseconds longest, const std::function<void()>& settle) {
  ranks.barrier().wait();
  const auto start = std::chrono::steady_clock::now();
  try {
    mismatch.call(ranks);
    ranks.barrier().wait();  // a broadcast may be complete on ranks that do not miss the other one
    settle();
    ranks.check();
  } catch (const CommunicationError& error) {
    const std::string text = error.what();
    if (text.find("the ranks are not in the same call: ") == std::string::npos) return text;
    for (const std::string& part : mismatch.parts)
      if (text.find(part) == std::string::npos) return "no '" + part + "' in: " + text;
    if (!error.missing_ranks().empty()) return rank_list(error.missing_ranks()) + " missing";
    const auto took =
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    return took > longest ? "took " + seconds_text(took) : "";
  }
  return "no error";
}

}  // namespace shampoo::test
