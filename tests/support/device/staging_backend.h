// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/facets.h"

namespace shampoo::test {

/// Another backend for callers whose arrays lie in the memory of the host: each call copies them
/// into the backend's memory, and back when it is done. Sizes follow from the arguments.
class StagingBackend final : public kernels::Backend {
 public:
  explicit StagingBackend(std::shared_ptr<kernels::Backend> backend);
  ~StagingBackend() override;

  std::string description() const override { return backend_->description(); }
  std::string arithmetic() const override { return backend_->arithmetic(); }
  MemoryKind memory_kind() const override { return MemoryKind::host; }
  bool prefers_products() const override { return backend_->prefers_products(); }
  bool has_tridiagonal_roots() const override { return false; }
  bool has_block_passes() const override { return false; }
  int scratch_directions() const override { return backend_->scratch_directions(); }
  std::size_t chunk_bytes(std::size_t largest) const override {
    return backend_->chunk_bytes(largest);
  }
  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void upload(void* to, const void* from_host, std::size_t bytes) override;
  void download(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void synchronize() override {}
  void reserve(std::span<const kernels::Stack> stacks, Type arithmetic,
               const kernels::SolverCalls& calls) override;
  void reserve_orthogonalization(std::span<const kernels::Stack> stacks,
                                 std::span<const kernels::PolarPlan> plans,
                                 Type arithmetic) override;

  // staging_elements.cpp
  void scan(const kernels::TileTable& gradients, const double* gradient_scale, bool skips,
            kernels::ScanResult* result) override;
  void scale_tensors(const kernels::TileTable& gradients, double max_norm,
                     const double* gradient_scale, double* scales) override;
  void admit(const kernels::StepPermit* permit, std::int32_t offers,
             const kernels::GradientRules& rules, kernels::StepRecords* records) override;
  void accumulate(const kernels::TileTable& elements, const double* keep,
                  const double* add) override;
  void compare(const kernels::RecordArray& records, void* gathered, std::int32_t* proceed) override;
  void read_values(const kernels::TileTable& elements, void* masters, void* slot) override;
  void filter(const kernels::PassContext& context, const kernels::GradientPass& pass) override;
  void graft_directions(const kernels::PassContext& context, const kernels::UpdatePass& pass,
                        void* direction) override;
  void measure_directions(const kernels::PassContext& context, const kernels::UpdatePass& pass,
                          kernels::DirectionSums* sums) override;
  void update(const kernels::PassContext& context, const kernels::UpdatePass& pass) override;
  void filter_and_update(const kernels::PassContext& context,
                         const kernels::GradientPass& gradients,
                         const kernels::UpdatePass& pass) override;
  void apply(const kernels::TileTable& elements, const kernels::Mode* modes, const void* segments,
             const std::int32_t* proceed) override;
  void pack_values(const kernels::TileTable& elements, void* segments) override;
  void evaluate(const kernels::TileTable& elements, const kernels::EvaluationPass& pass) override;
  void accumulate_factors(const kernels::PassContext& context,
                          std::span<const kernels::Stack> stacks,
                          std::span<const kernels::Selection> selected,
                          const void* masters) override;
  void precondition(const kernels::PassContext& context, std::span<const kernels::Stack> stacks,
                    std::span<const kernels::Selection> selected, void* direction,
                    double* direction_norms) override;
  void orthogonalize(const kernels::PassContext& context, std::span<const kernels::Stack> stacks,
                     std::span<const kernels::Selection> selected,
                     std::span<const kernels::PolarPlan> plans, void* direction,
                     double* direction_norms) override;

  // staging_bases.cpp
  void accumulate_whitened_factors(const kernels::PassContext& context,
                                   std::span<const kernels::Stack> stacks,
                                   std::span<const kernels::Selection> selected,
                                   const void* masters, bool normalizes) override;
  void precondition_in_eigenbasis(const kernels::PassContext& context,
                                  std::span<const kernels::Stack> stacks,
                                  std::span<const kernels::Selection> present,
                                  const kernels::EigenbasisPass& pass) override;
  void rotate(const kernels::PassContext& context, std::span<const kernels::Stack> stacks,
              std::span<const kernels::Selection> present, bool transposed,
              void* elements) override;
  void load_bases(std::span<const kernels::BasisBatch> bases,
                  std::span<const kernels::SquareMatrixBatch> q) override;
  void store_bases(std::span<const kernels::SquareMatrixBatch> q,
                   std::span<const kernels::BasisBatch> bases, std::int32_t* failed) override;
  void iterate_orthogonally(std::span<const kernels::SquareMatrixBatch> x,
                            std::span<const kernels::SquareMatrixBatch> a,
                            std::span<const kernels::SquareMatrixBatch> q, int iterations,
                            const std::uint8_t* active) override;
  void sort_basis(std::span<const kernels::SquareMatrixBatch> a,
                  std::span<const kernels::SquareMatrixBatch> x,
                  std::span<const kernels::SquareMatrixBatch> q,
                  std::span<const kernels::SquareMatrixBatch> s) override;
  void multiply_transposed(std::span<const kernels::SquareMatrixBatch> a,
                           std::span<const kernels::SquareMatrixBatch> b,
                           std::span<const kernels::SquareMatrixBatch> c) override;

  // staging_squares.cpp
  void unpack_factors(std::span<const kernels::FactorBatch> factors,
                      const kernels::Loading& loading,
                      std::span<const kernels::SquareMatrixBatch> a) override;
  void eigh(std::span<const kernels::SquareMatrixBatch> a, kernels::Eigensolver solver,
            std::int32_t* failed) override;
  void root_spectrum(std::span<const kernels::SquareMatrixBatch> a,
                     const kernels::Spectrum& spectrum) override;
  void reconstruct(std::span<const kernels::SquareMatrixBatch> q,
                   std::span<const kernels::SquareMatrixBatch> x) override;
  void pack_roots(std::span<const kernels::SquareMatrixBatch> x,
                  const kernels::RootScaling& scaling, std::span<const kernels::FactorBatch> roots,
                  std::int32_t* failed) override;
  void multiply(std::span<const kernels::SquareMatrixBatch> a,
                std::span<const kernels::SquareMatrixBatch> b,
                std::span<const kernels::SquareMatrixBatch> c, const std::uint8_t* active) override;
  void combine(const double* scales, std::span<const kernels::SquareMatrixBatch> x,
               const double* shifts, std::span<const kernels::SquareMatrixBatch> y,
               const std::uint8_t* active) override;
  void measure(std::span<const kernels::SquareMatrixBatch> a, kernels::Measure what,
               double* numbers, const std::uint8_t* active) override;

  // staging_symmetric.cpp
  void damp(std::span<const kernels::SquareMatrixBatch> a,
            std::span<const kernels::SquareMatrixBatch> squared, const kernels::Damping& damping,
            std::span<const kernels::SquareMatrixBatch> m,
            std::span<const kernels::SquareMatrixBatch> n, kernels::Form form) override;
  void convert(std::span<const kernels::SquareMatrixBatch> a,
               std::span<const kernels::SquareMatrixBatch> c, kernels::Form form) override;
  void multiply_symmetric(std::span<const kernels::SquareMatrixBatch> a,
                          std::span<const kernels::SquareMatrixBatch> b, kernels::Form operands,
                          const kernels::Weights& weights,
                          std::span<const kernels::SquareMatrixBatch> d,
                          std::span<const kernels::SquareMatrixBatch> c,
                          kernels::Form form) override;
  void check_identity(std::span<const kernels::SquareMatrixBatch> m, kernels::Form form,
                      double limit, const std::int32_t* proceed, const std::uint8_t* active,
                      std::int32_t* failed) override;

 private:
  std::shared_ptr<kernels::Backend> backend_;
};

}  // namespace shampoo::test
