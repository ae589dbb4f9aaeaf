// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "kernels/cpu/blas/blas_setup.h"
#include "kernels/cpu/simd/vector_kernels.h"
#include "kernels/cpu/threads/workers.h"
#include "kernels/facets.h"

namespace shampoo::kernels {

/// The host. Members are defined in the files named above them.
class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, bool sets_up_blas);

  // host_backend.cpp
  std::string description() const override;
  std::string arithmetic() const override;
  MemoryKind memory_kind() const override { return MemoryKind::host; }
  bool prefers_products() const override { return false; }
  bool has_tridiagonal_roots() const override { return true; }
  bool has_block_passes() const override { return true; }
  std::size_t chunk_bytes(std::size_t largest) const override;
  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void upload(void* to, const void* from_host, std::size_t bytes) override;
  void download(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void synchronize() override {}
  MemoryUse memory_use() const override { return {.scratch = workers_.scratch_bytes()}; }
  void reserve(std::span<const Stack> stacks, Type arithmetic, const SolverCalls& calls) override;

  // elementwise.cpp
  void scan(const TileTable& gradients, const double* gradient_scale, bool skips,
            ScanResult* result) override;
  void scale_tensors(const TileTable& gradients, double max_norm, const double* gradient_scale,
                     double* scales) override;
  void admit(const StepPermit* permit, std::int32_t offers, const GradientRules& rules,
             StepRecords* records) override;
  void compare(const RecordArray& records, void* gathered, std::int32_t* proceed) override;
  void accumulate(const TileTable& elements, const double* keep, const double* add) override;
  void read_values(const TileTable& elements, void* masters, void* slot) override;
  void filter(const PassContext& context, const GradientPass& pass) override;
  void graft_directions(const PassContext& context, const UpdatePass& pass,
                        void* direction) override;
  void measure_directions(const PassContext& context, const UpdatePass& pass,
                          DirectionSums* sums) override;
  void update(const PassContext& context, const UpdatePass& pass) override;
  void filter_and_update(const PassContext& context, const GradientPass& gradients,
                         const UpdatePass& pass) override;
  void apply(const TileTable& elements, const Mode* modes, const void* segments,
             const std::int32_t* proceed) override;
  void pack_values(const TileTable& elements, void* segments) override;
  void evaluate(const TileTable& elements, const EvaluationPass& pass) override;

  // factors.cpp
  void accumulate_whitened_factors(const PassContext& context, std::span<const Stack> stacks,
                                   std::span<const Selection> selected, const void* masters,
                                   bool normalizes) override;
  void accumulate_factors(const PassContext& context, std::span<const Stack> stacks,
                          std::span<const Selection> selected, const void* masters) override;

  // orthogonalize.cpp
  void reserve_orthogonalization(std::span<const Stack> stacks, std::span<const PolarPlan> plans,
                                 Type arithmetic) override;
  void orthogonalize(const PassContext& context, std::span<const Stack> stacks,
                     std::span<const Selection> selected, std::span<const PolarPlan> plans,
                     void* direction, double* direction_norms) override;
  void reserve_orthogonalization_and_update(std::span<const Stack> stacks,
                                            std::span<const PolarPlan> plans,
                                            Type arithmetic) override;
  void orthogonalize_and_update(const PassContext& context, const GradientPass& gradients,
                                std::span<const Stack> stacks, std::span<const Selection> selected,
                                std::span<const PolarPlan> plans, double* direction_norms,
                                const UpdatePass& update) override;

  // precondition.cpp
  void precondition(const PassContext& context, std::span<const Stack> stacks,
                    std::span<const Selection> selected, void* direction,
                    double* direction_norms) override;
  void precondition_and_update(const PassContext& context, const GradientPass& gradients,
                               std::span<const Stack> stacks, std::span<const Selection> present,
                               double* direction_norms, const UpdatePass& update) override;

  // eigenbasis.cpp
  void precondition_in_eigenbasis(const PassContext& context, std::span<const Stack> stacks,
                                  std::span<const Selection> present,
                                  const EigenbasisPass& pass) override;
  void rotate(const PassContext& context, std::span<const Stack> stacks,
              std::span<const Selection> present, bool transposed, void* elements) override;

  // basis_matrices.cpp
  void load_bases(std::span<const BasisBatch> bases, std::span<const SquareMatrixBatch> q) override;
  void store_bases(std::span<const SquareMatrixBatch> q, std::span<const BasisBatch> bases,
                   std::int32_t* failed) override;
  void iterate_orthogonally(std::span<const SquareMatrixBatch> x,
                            std::span<const SquareMatrixBatch> a,
                            std::span<const SquareMatrixBatch> q, int iterations,
                            const std::uint8_t* active) override;
  void sort_basis(std::span<const SquareMatrixBatch> a, std::span<const SquareMatrixBatch> x,
                  std::span<const SquareMatrixBatch> q,
                  std::span<const SquareMatrixBatch> s) override;
  void multiply_transposed(std::span<const SquareMatrixBatch> a,
                           std::span<const SquareMatrixBatch> b,
                           std::span<const SquareMatrixBatch> c) override;

  // factor_roots.cpp
  void unpack_factors(std::span<const FactorBatch> factors, const Loading& loading,
                      std::span<const SquareMatrixBatch> a) override;
  void pack_roots(std::span<const SquareMatrixBatch> x, const RootScaling& scaling,
                  std::span<const FactorBatch> roots, std::int32_t* failed) override;

  // eigen.cpp
  void eigh(std::span<const SquareMatrixBatch> a, Eigensolver solver,
            std::int32_t* failed) override;
  void root_spectrum(std::span<const SquareMatrixBatch> a, const Spectrum& spectrum) override;
  void reconstruct(std::span<const SquareMatrixBatch> q,
                   std::span<const SquareMatrixBatch> x) override;

  // tridiagonal.cpp
  void tridiagonal_root(std::span<const SquareMatrixBatch> a, const TridiagonalRoot& how,
                        std::span<const SquareMatrixBatch> x, std::int32_t* failed) override;

  // square_matrices.cpp
  void multiply(std::span<const SquareMatrixBatch> a, std::span<const SquareMatrixBatch> b,
                std::span<const SquareMatrixBatch> c, const std::uint8_t* active) override;
  void combine(const double* scales, std::span<const SquareMatrixBatch> x, const double* shifts,
               std::span<const SquareMatrixBatch> y, const std::uint8_t* active) override;
  void measure(std::span<const SquareMatrixBatch> a, Measure what, double* numbers,
               const std::uint8_t* active) override;

  // symmetric.cpp
  void damp(std::span<const SquareMatrixBatch> a, std::span<const SquareMatrixBatch> squared,
            const Damping& damping, std::span<const SquareMatrixBatch> m,
            std::span<const SquareMatrixBatch> n, Form form) override;
  void convert(std::span<const SquareMatrixBatch> a, std::span<const SquareMatrixBatch> c,
               Form form) override;
  void multiply_symmetric(std::span<const SquareMatrixBatch> a,
                          std::span<const SquareMatrixBatch> b, Form operands,
                          const Weights& weights, std::span<const SquareMatrixBatch> d,
                          std::span<const SquareMatrixBatch> c, Form form) override;
  void check_identity(std::span<const SquareMatrixBatch> m, Form form, double limit,
                      const std::int32_t* proceed, const std::uint8_t* active,
                      std::int32_t* failed) override;

 private:
  /// body(tile index) for every tile.
  template <typename Body>
  void for_each_tile(const TileTable& elements, Body&& body);
  /// body(index, work) for the tiles of blocks that are not absent.
  template <typename Body>
  void for_each_present_tile(const PassContext& context, const void* masters, Body&& body);
  /// `passes`: operations for each element beside those of the plans.
  void schedule_orthogonalization(std::span<const Stack> stacks,
                                  std::span<const Selection> selected,
                                  std::span<const PolarPlan> plans, double passes);
  void project(const PassContext& context, const UpdatePass& pass);
  /// Projections, averages behind them, and counts, once the tiles have their updates.
  void finish_update(const PassContext& context, const UpdatePass& pass);

  VectorLevel level_;
  Workers workers_;
  std::optional<BlasBuffers> blas_buffers_;  ///< after set_up_blas()
};

}  // namespace shampoo::kernels
