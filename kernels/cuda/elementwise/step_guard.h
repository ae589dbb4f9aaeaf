// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/launch/reduce.h"

namespace shampoo::kernels::cuda {

/// Backend::admit(). One block of threads.
struct Admit {
  static constexpr int threads = 32;
  struct Shared {};

  const StepPermit* admission = nullptr;
  std::int32_t offers = 0;
  ReplayCounter* runs = nullptr;
  ScanResult* verdict = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const {
    block.each([&](int thread) {
      if (thread != 0) return;
      const bool repeated = admission->ticket != 0 && admission->ticket == runs->last_ticket;
      ++(repeated ? runs->repeated : runs->count);
      runs->last_ticket = admission->ticket;
      const bool fits = (admission->needs & ~offers) == 0;
      if (!fits) verdict->first_bad = unfit_step;
      if (!fits || repeated || admission->permitted == 0) verdict->proceed = 0;
    });
  }
};

/// Backend::compare(), word by word. One block of threads.
struct Compare {
  static constexpr int threads = 256;
  struct Shared {
    std::int32_t agree[threads];
  };

  RecordArray records;
  void* gathered = nullptr;
  std::int32_t* proceed = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  SHAMPOO_BOTH const std::uint32_t* record(std::int64_t r) const {
    return reinterpret_cast<const std::uint32_t*>(static_cast<const char*>(records.array) +
                                                  records.begins[r]);
  }
};

template <typename Threads>
SHAMPOO_BOTH void Compare::operator()(Threads& block, Shared& shared) const {
  const std::int64_t words = records.bytes / 4, flag = records.flag / 4;
  const std::int64_t first = records.first_equal / 4, last = records.last_equal / 4;
  block.each([&](int thread) {
    std::int32_t agree = 1;
    for (std::int64_t i = thread; i < records.count * words; i += threads) {
      const std::int64_t r = i / words, w = i % words;
      const std::uint32_t word = record(r)[w];
      static_cast<std::uint32_t*>(gathered)[i] = word;
      if (w >= first && w < last && word != record(0)[w]) agree = 0;
      if (w == flag && word == 0) agree = 0;
    }
    shared.agree[thread] = agree;
  });
  reduce(block, shared.agree, [](std::int32_t a, std::int32_t b) { return a & b; });
  block.each([&](int thread) {
    if (thread == 0 && shared.agree[0] == 0) *proceed = 0;
  });
}

}  // namespace shampoo::kernels::cuda
