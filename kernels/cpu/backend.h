// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/cpu/workers.h"

namespace shampoo::kernels {

/// The host. Members stand in the file that is named above them.
class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, bool sets_up_blas);

  // backend.cpp
  std::string description() const override;
  std::string arithmetic() const override;
  Memory memory() const override { return Memory::host; }
  bool prefers_products() const override { return false; }
  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void upload(void* to, const void* from_host, std::size_t bytes) override;
  void download(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void synchronize() override {}
  MemoryUse memory_use() const override { return {.scratch = workers_.scratch_bytes()}; }
  void reserve(std::span<const Stack> stacks, Type arithmetic, const SolverCalls& calls) override;

  // elementwise.cpp
  void scan(const Elements& gradients, const double* gradient_scale, bool refuses,
            Verdict* verdict) override;
  void admit(const Admission* admission, std::int32_t offers, Runs* runs,
             Verdict* verdict) override;
  void compare(const Records& records, void* gathered, std::int32_t* proceed) override;
  void read_values(const Elements& elements, void* masters) override;
  void filter(const Phase& phase, const Filter& filter) override;
  void update(const Phase& phase, const Update& update) override;
  void apply(const Elements& elements, const Mode* modes, const void* segments,
             const std::int32_t* proceed) override;

  // factors.cpp
  void accumulate_factors(const Phase& phase, std::span<const Stack> stacks,
                          std::span<const Selection> selected, const void* masters) override;

  // precondition.cpp
  void precondition(const Phase& phase, std::span<const Stack> stacks,
                    std::span<const Selection> selected, void* direction,
                    double* direction_norms) override;

  // pairs.cpp
  void load(std::span<const Pairs> factors, const Loading& loading,
            std::span<const Squares> a) override;
  void store(std::span<const Squares> x, std::span<const Pairs> roots,
             std::int32_t* failed) override;
  void identity_roots(std::span<const Pairs> roots) override;

  // eigen.cpp
  void eigh(std::span<const Squares> a, Eigensolver solver, std::int32_t* failed) override;
  void root_spectrum(std::span<const Squares> a, const Spectrum& spectrum) override;
  void assemble(std::span<const Squares> q, std::span<const Squares> x) override;

  // squares.cpp
  void multiply(std::span<const Squares> a, std::span<const Squares> b, std::span<const Squares> c,
                const std::uint8_t* active) override;
  void combine(const double* scales, std::span<const Squares> x, const double* shifts,
               std::span<const Squares> y, const std::uint8_t* active) override;
  void measure(std::span<const Squares> a, Measure what, double* numbers,
               const std::uint8_t* active) override;

  // symmetric.cpp
  void normalize(std::span<const Squares> a, double* scales) override;
  void damp(std::span<const Squares> a, std::span<const Squares> squared,
            const Damping& damping) override;
  void multiply_symmetric(std::span<const Squares> a, std::span<const Squares> b,
                          const Weights& weights, Precision precision,
                          std::span<const Squares> c) override;
  void check_identity(std::span<const Squares> m, double limit, const std::int32_t* proceed,
                      const std::uint8_t* active, std::int32_t* failed) override;
  void rescale(std::span<const Squares> x, const double* scales, double exponent) override;

 private:
  /// body(piece index) for every piece.
  template <typename Body>
  void for_each_piece(const Elements& elements, Body&& body);

  VectorLevel level_;
  Workers workers_;
};

}  // namespace shampoo::kernels
