// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/solvers/factor_solver.h"
#include "shampoo/preconditioners/preconditioner.h"
#include "shampoo/validation/checks.h"

/// What kinds with Kronecker factors have in common: statistics, refreshes and their failures.
namespace shampoo {

std::string factor_slot(int dimension);
std::string root_slot(int dimension);
std::string root_scale_slot(int dimension);
std::string basis_slot(int dimension);
std::string eigenvalues_slot(int dimension);

/// What factors sum.
enum class Statistic : std::uint8_t {
  gradient,            ///< C_k = G x_{j != k} G [Gupta 2018]
  whitened,            ///< C_k = H x_{j != k} H, H = G preconditioned along j != k [Lin 2025]
  whitened_normalized  ///< the same over the product of the sides j != k
};

/// Options of a kind with factors.
struct FactorOptions {
  std::string_view solver;      ///< its name
  bool drop_weighting = false;  ///< see RootInverse
  int tolerated_failures = 3;
  Statistic statistic = Statistic::gradient;
};

/// Inverse exponent of one dimension of blocks of an order: `usual` unless `exponents` names one.
double exponent_of(std::span<const Exponent> exponents, int order, int dimension, double usual);

/// The exponent 1 / (2 order), with which a product over all dimensions scales as the inverse
/// square root.
inline double usual_exponent(int order) { return 1.0 / (2 * std::max(order, 1)); }

/// Throws std::invalid_argument for orders and dimensions out of range.
void check_places(std::span<const Exponent> exponents, const Checks& checks);
/// The same for options that all kinds with factors have.
void check_factor_options(const std::optional<double>& trace_scaling, int tolerated_failures,
                          const Checks& checks);

/// beta2 and epsilon; an epsilon that is 0 with a pseudo-inverse.
std::span<const RateUse> factor_rates(bool has_pseudo_inverse);

/// Cost of a refresh of a factor of side n: cubic n^3 + quadratic n^2.
struct RefreshWork {
  std::int64_t cubic;      ///< products
  std::int64_t quadratic;  ///< what runs at the speed of memory, or for few numbers at a time
};
RefreshWork basis_refresh(const BasisMethod& method);

/// Cost of a factor of this side, and of a product of its block with one matrix of this side.
PreconditionerWork factor_work(const RefreshWork& refresh, std::int64_t elements,
                               std::int64_t side);
std::int64_t product_work(std::int64_t elements, std::int64_t side);
std::string_view basis_method_name(const BasisMethod& method);

/// True if eigenbases are ever used: without grafting they act before their first refresh, too.
inline bool uses_eigenbases(const Recipe& recipe) {
  return recipe.refresh.first || !recipe.grafting;
}

/// The slots of one dimension with an eigenbasis: the factor, packed, and the basis. A basis
/// depends on those before it, so it is saved.
void add_basis_slots(int dimension, Type type, std::vector<Slot>& slots);

/// L_k <- beta2 L_k + w C_k, and refreshes by a solver.
class FactoredPreconditioner : public GroupPreconditioner {
 public:
  void set_coefficients(const Rates& rates, std::int64_t step,
                        kernels::Coefficients& coefficients) const override;
  void prepare(std::span<const BlockStep> blocks) override;
  void accumulate(StepContext& step) override;
  void refresh(StepContext& step) override;

  bool refreshes() const override { return job_count_ > 0; }
  bool exceeds_usual() const override { return refreshes() && solver_->exceeds_usual(); }
  std::string_view waiting_solver() const override;
  void collect(Statistics& statistics) override;
  void recompute(std::span<const BlockStep> blocks, Statistics& statistics) override;
  int failures(std::size_t block) const override { return failures_[block]; }
  void set_failures(std::size_t block, int failures) override { failures_[block] = failures; }
  std::int64_t exhausted_block() const override;
  std::int64_t workspace_bytes() const override { return solver_->workspace_bytes(); }

 protected:
  /// Job of dimension k of a block whose factor lies there, but for rates; its exponent orders
  /// jobs.
  FactoredPreconditioner(const PreconditionerContext& context, const FactorOptions& options,
                         std::unique_ptr<kernels::FactorSolver> solver);

  /// Finds the jobs of all blocks by their slots, and reserves memory. By constructors, once the
  /// stacks are complete. `exponent(order, dimension)` is that of a root.
  template <typename ExponentOf>
  void reserve_jobs(const PreconditionerContext& context, const ExponentOf& exponent) {
    for (std::size_t b = 0; b < context.extents.size(); ++b) {
      const int order = static_cast<int>(context.extents[b].size());
      first_job_.push_back(all_jobs_.size());
      for (int k = 0; k < order; ++k) add_job(context, b, k, exponent(order, k));
    }
    first_job_.push_back(all_jobs_.size());
    reserve_solver(context);
  }

  /// 1 - beta2^t, by which L and second moments are divided; 1 without bias correction.
  double bias_correction(const Rates& rates, std::int64_t step) const;

  /// True if statistics read roots, or eigenbases and scales, of other dimensions.
  bool whitens() const { return options_.statistic != Statistic::gradient; }

  const Recipe& recipe_;
  kernels::Backend& backend_;
  std::vector<kernels::Stack> stacks_;  ///< with the arrays of their slots

 private:
  void add_job(const PreconditionerContext& context, std::size_t block, int dimension,
               double exponent);
  void reserve_solver(const PreconditionerContext& context);
  void count(Statistics& statistics);
  std::span<kernels::RootJob> jobs() { return {jobs_.data(), job_count_}; }

  FactorOptions options_;
  kernels::StagedArrays& columns_;
  std::unique_ptr<kernels::FactorSolver> solver_;
  std::vector<kernels::RootJob> all_jobs_;  ///< of every factor, block after block
  std::vector<std::size_t> first_job_;      ///< per block, and the end
  std::vector<kernels::RootJob> jobs_;      ///< of the due blocks
  std::vector<std::size_t> job_blocks_;
  std::size_t job_count_ = 0;
  bool counted_ = false;       ///< the outcomes of the jobs
  std::vector<int> failures_;  ///< per block
};

}  // namespace shampoo
