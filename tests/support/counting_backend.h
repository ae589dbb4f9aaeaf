// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace shampoo::test {

/// Hands every call on to another backend, which it borrows, and counts those that would be a
/// launch on a device: kernels, batches of BLAS or LAPACK, and copies.
class CountingBackend : public Backend {
 public:
  explicit CountingBackend(Backend& backend) : backend_(backend) {}

  /// Since construction.
  std::int64_t launches() const { return launches_; }

  std::string description() const override { return backend_.description(); }
  std::string arithmetic() const override { return backend_.arithmetic(); }
  Memory memory() const override { return backend_.memory(); }
  void* allocate(std::size_t bytes) override { return backend_.allocate(bytes); }
  void release(void* memory) noexcept override { backend_.release(memory); }
  void synchronize() override { backend_.synchronize(); }
  void reserve(std::span<const kernels::Stack> stacks, Type arithmetic,
               std::int64_t largest_side) override {
    backend_.reserve(stacks, arithmetic, largest_side);
  }

  void upload(void* to, const void* from_host, std::size_t bytes) override;
  void download(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void scan(const kernels::Elements& gradients, const double* gradient_scale, bool refuses,
            kernels::Verdict* verdict) override;
  void read_values(const kernels::Elements& elements, void* masters) override;
  void accumulate_factors(const kernels::Phase& phase, std::span<const kernels::Stack> stacks,
                          std::span<const kernels::Selection> selected,
                          const void* masters) override;
  void filter(const kernels::Phase& phase, const kernels::Filter& filter) override;
  void precondition(const kernels::Phase& phase, std::span<const kernels::Stack> stacks,
                    std::span<const kernels::Selection> selected, void* direction,
                    double* direction_norms) override;
  void update(const kernels::Phase& phase, const kernels::Update& update) override;
  void apply(const kernels::Elements& elements, const kernels::Mode* modes, const void* segments,
             const std::int32_t* proceed) override;
  void load(std::span<const kernels::Pairs> factors, const kernels::Loading& loading,
            std::span<const kernels::Squares> a) override;
  void eigh(std::span<const kernels::Squares> a, kernels::Eigensolver solver,
            std::int32_t* failed) override;
  void root_spectrum(std::span<const kernels::Squares> a,
                     const kernels::Spectrum& spectrum) override;
  void assemble(std::span<const kernels::Squares> q, std::span<const kernels::Squares> x) override;
  void store(std::span<const kernels::Squares> x, std::span<const kernels::Pairs> roots,
             std::int32_t* failed) override;
  void multiply(std::span<const kernels::Squares> a, std::span<const kernels::Squares> b,
                std::span<const kernels::Squares> c, const std::uint8_t* active) override;
  void combine(const double* scales, std::span<const kernels::Squares> x, const double* shifts,
               std::span<const kernels::Squares> y, const std::uint8_t* active) override;
  void measure(std::span<const kernels::Squares> a, kernels::Measure what, double* numbers,
               const std::uint8_t* active) override;
  void identity_roots(std::span<const kernels::Pairs> roots) override;

 private:
  /// The backend, for one launch.
  Backend& launch() {
    ++launches_;
    return backend_;
  }

  Backend& backend_;
  std::int64_t launches_ = 0;
};

}  // namespace shampoo::test
