// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/gemm/polar_kernels.h"
#include "kernels/facets.h"

namespace shampoo::kernels::cuda {

/// Adds those of matrices of a side, A B, A B^T and A^T B. Decompositions need them in float64.
void add_square_products(std::int64_t side, Type type, std::vector<Product>& products);

/// A GPU. Members are defined in the files named above them.
class DeviceBackend final : public Backend {
 public:
  explicit DeviceBackend(std::unique_ptr<Device> device);
  ~DeviceBackend() override;

  // device_backend.cpp
  std::string description() const override { return device_->description(); }
  std::string arithmetic() const override { return device_->arithmetic(); }
  MemoryKind memory_kind() const override { return MemoryKind::cuda; }
  bool prefers_products() const override { return true; }
  bool has_tridiagonal_roots() const override { return false; }
  bool has_block_passes() const override { return false; }
  /// 14 matrices of side 1024 in float32, 24 of side 768: products of both have 504 tiles, which
  /// 132 processors with two blocks each take in two rounds.
  std::size_t chunk_bytes(std::size_t) const override { return std::size_t{56} << 20; }
  int scratch_directions() const override { return 2; }
  bool is_immediate() const override { return false; }
  int device() const override { return device_->index(); }
  void* stream() const override { return device_->stream(); }
  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void trim() override { device_->trim(); }
  void* allocate_host(std::size_t bytes) override;
  void release_host(void* memory) noexcept override;
  void upload(void* to, const void* from_host, std::size_t bytes) override;
  void download(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  MemoryUse memory_use() const override;
  std::unique_ptr<Mark> make_mark() override { return device_->make_mark(); }
  std::unique_ptr<Timeline> make_timeline(std::size_t points) override {
    return device_->make_timeline(points);
  }
  bool is_idle() override { return device_->is_idle(); }
  void synchronize() override { device_->synchronize(); }
  bool is_capturing() const override { return device_->is_capturing(); }
  void begin_range(const char* name) override { device_->begin_range(name); }
  void end_range() override { device_->end_range(); }
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

  // products.cpp
  void accumulate_factors(const PassContext& context, std::span<const Stack> stacks,
                          std::span<const Selection> selected, const void* masters) override;
  void precondition(const PassContext& context, std::span<const Stack> stacks,
                    std::span<const Selection> selected, void* direction,
                    double* direction_norms) override;

  // orthogonalize.cpp
  void reserve_orthogonalization(std::span<const Stack> stacks, std::span<const PolarPlan> plans,
                                 Type arithmetic) override;
  void orthogonalize(const PassContext& context, std::span<const Stack> stacks,
                     std::span<const Selection> selected, std::span<const PolarPlan> plans,
                     void* direction, double* direction_norms) override;

  // eigenbasis.cpp
  void accumulate_whitened_factors(const PassContext& context, std::span<const Stack> stacks,
                                   std::span<const Selection> selected, const void* masters,
                                   bool normalizes) override;
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
  /// Queues the projection and the average of the values that the update leaves.
  void finish_values(const PassContext& context, const UpdatePass& pass);
  void sum_partials(const PassContext& context, int count, double* sums);
  /// What HalfGram and Gram leave to a library.
  void accumulate_by_library(const ProductPhase& phase, std::span<const Stack> stacks,
                             const float* masters);
  /// Of products with roots and bases, and of gradients.
  void add_mode_products(std::span<const Stack> stacks, Type arithmetic,
                         std::vector<Product>& products);
  void iterate(const PolarStack& stack, const PolarPlan& plan);
  void decompose(const PolarStack& stack, const PolarPlan& plan, const double* norms);
  void decompose(const DecomposedMatrix& matrix);
  /// Makes vectors of one eigenvalue orthogonal.
  void orthogonalize_vectors(const DecomposedMatrix& matrix);

  std::unique_ptr<Device> device_;
  std::map<void*, std::size_t> host_blocks_;  ///< of allocate_host()
  Workspace workspace_;
};

}  // namespace shampoo::kernels::cuda
