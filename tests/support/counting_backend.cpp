// SPDX-License-Identifier: Apache-2.0
#include "tests/support/counting_backend.h"

namespace shampoo::test {

void CountingBackend::upload(void* to, const void* from_host, std::size_t bytes) {
  launch().upload(to, from_host, bytes);
}

void CountingBackend::download(void* to_host, const void* from, std::size_t bytes) {
  launch().download(to_host, from, bytes);
}

void CountingBackend::copy(void* to, const void* from, std::size_t bytes) {
  launch().copy(to, from, bytes);
}

void CountingBackend::scan(const kernels::TileTable& gradients, const double* gradient_scale,
                           bool skips, kernels::ScanResult* result) {
  launch().scan(gradients, gradient_scale, skips, result);
}

void CountingBackend::scale_tensors(const kernels::TileTable& gradients, double max_norm,
                                    const double* gradient_scale, double* scales) {
  launch().scale_tensors(gradients, max_norm, gradient_scale, scales);
}

void CountingBackend::admit(const kernels::StepPermit* permit, std::int32_t offers,
                            const kernels::GradientRules& rules, kernels::StepRecords* records) {
  launch().admit(permit, offers, rules, records);
}

void CountingBackend::accumulate(const kernels::TileTable& elements, const double* keep,
                                 const double* add) {
  launch().accumulate(elements, keep, add);
}

void CountingBackend::compare(const kernels::RecordArray& records, void* gathered,
                              std::int32_t* proceed) {
  launch().compare(records, gathered, proceed);
}

void CountingBackend::read_values(const kernels::TileTable& elements, void* masters, void* slot) {
  launch().read_values(elements, masters, slot);
}

void CountingBackend::accumulate_factors(const kernels::PassContext& context,
                                         std::span<const kernels::Stack> stacks,
                                         std::span<const kernels::Selection> selected,
                                         const void* masters) {
  launch().accumulate_factors(context, stacks, selected, masters);
}

void CountingBackend::filter(const kernels::PassContext& context,
                             const kernels::GradientPass& pass) {
  launch().filter(context, pass);
}

void CountingBackend::precondition(const kernels::PassContext& context,
                                   std::span<const kernels::Stack> stacks,
                                   std::span<const kernels::Selection> selected, void* direction,
                                   double* direction_norms) {
  launch().precondition(context, stacks, selected, direction, direction_norms);
}

void CountingBackend::orthogonalize(const kernels::PassContext& context,
                                    std::span<const kernels::Stack> stacks,
                                    std::span<const kernels::Selection> selected,
                                    std::span<const kernels::PolarPlan> plans, void* direction,
                                    double* direction_norms) {
  launch().orthogonalize(context, stacks, selected, plans, direction, direction_norms);
}

void CountingBackend::graft_directions(const kernels::PassContext& context,
                                       const kernels::UpdatePass& pass, void* direction) {
  launch().graft_directions(context, pass, direction);
}

void CountingBackend::measure_directions(const kernels::PassContext& context,
                                         const kernels::UpdatePass& pass,
                                         kernels::DirectionSums* sums) {
  launch().measure_directions(context, pass, sums);
}

void CountingBackend::update(const kernels::PassContext& context, const kernels::UpdatePass& pass) {
  launch().update(context, pass);
}

void CountingBackend::filter_and_update(const kernels::PassContext& context,
                                        const kernels::GradientPass& gradients,
                                        const kernels::UpdatePass& pass) {
  launch().filter_and_update(context, gradients, pass);
}

void CountingBackend::precondition_and_update(const kernels::PassContext& context,
                                              const kernels::GradientPass& gradients,
                                              std::span<const kernels::Stack> stacks,
                                              std::span<const kernels::Selection> present,
                                              double* direction_norms,
                                              const kernels::UpdatePass& update) {
  launch().precondition_and_update(context, gradients, stacks, present, direction_norms, update);
}

void CountingBackend::orthogonalize_and_update(const kernels::PassContext& context,
                                               const kernels::GradientPass& gradients,
                                               std::span<const kernels::Stack> stacks,
                                               std::span<const kernels::Selection> selected,
                                               std::span<const kernels::PolarPlan> plans,
                                               double* direction_norms,
                                               const kernels::UpdatePass& update) {
  launch().orthogonalize_and_update(context, gradients, stacks, selected, plans, direction_norms,
                                    update);
}

void CountingBackend::apply(const kernels::TileTable& elements, const kernels::Mode* modes,
                            const void* segments, const std::int32_t* proceed) {
  launch().apply(elements, modes, segments, proceed);
}
void CountingBackend::pack_values(const kernels::TileTable& elements, void* segments) {
  launch().pack_values(elements, segments);
}
void CountingBackend::evaluate(const kernels::TileTable& elements,
                               const kernels::EvaluationPass& pass) {
  launch().evaluate(elements, pass);
}

void CountingBackend::unpack_factors(std::span<const kernels::FactorBatch> factors,
                                     const kernels::Loading& loading,
                                     std::span<const kernels::SquareMatrixBatch> a) {
  launch().unpack_factors(factors, loading, a);
}

void CountingBackend::eigh(std::span<const kernels::SquareMatrixBatch> a,
                           kernels::Eigensolver solver, std::int32_t* failed) {
  launch().eigh(a, solver, failed);
}

void CountingBackend::root_spectrum(std::span<const kernels::SquareMatrixBatch> a,
                                    const kernels::Spectrum& spectrum) {
  launch().root_spectrum(a, spectrum);
}

void CountingBackend::reconstruct(std::span<const kernels::SquareMatrixBatch> q,
                                  std::span<const kernels::SquareMatrixBatch> x) {
  launch().reconstruct(q, x);
}

void CountingBackend::tridiagonal_root(std::span<const kernels::SquareMatrixBatch> a,
                                       const kernels::TridiagonalRoot& how,
                                       std::span<const kernels::SquareMatrixBatch> x,
                                       std::int32_t* failed) {
  launch().tridiagonal_root(a, how, x, failed);
}

void CountingBackend::pack_roots(std::span<const kernels::SquareMatrixBatch> x,
                                 const kernels::RootScaling& scaling,
                                 std::span<const kernels::FactorBatch> roots,
                                 std::int32_t* failed) {
  launch().pack_roots(x, scaling, roots, failed);
}

void CountingBackend::multiply(std::span<const kernels::SquareMatrixBatch> a,
                               std::span<const kernels::SquareMatrixBatch> b,
                               std::span<const kernels::SquareMatrixBatch> c,
                               const std::uint8_t* active) {
  launch().multiply(a, b, c, active);
}

void CountingBackend::combine(const double* scales, std::span<const kernels::SquareMatrixBatch> x,
                              const double* shifts, std::span<const kernels::SquareMatrixBatch> y,
                              const std::uint8_t* active) {
  launch().combine(scales, x, shifts, y, active);
}

void CountingBackend::measure(std::span<const kernels::SquareMatrixBatch> a, kernels::Measure what,
                              double* numbers, const std::uint8_t* active) {
  launch().measure(a, what, numbers, active);
}

void CountingBackend::damp(std::span<const kernels::SquareMatrixBatch> a,
                           std::span<const kernels::SquareMatrixBatch> squared,
                           const kernels::Damping& damping,
                           std::span<const kernels::SquareMatrixBatch> m,
                           std::span<const kernels::SquareMatrixBatch> n, kernels::Form form) {
  launch().damp(a, squared, damping, m, n, form);
}

void CountingBackend::convert(std::span<const kernels::SquareMatrixBatch> a,
                              std::span<const kernels::SquareMatrixBatch> c, kernels::Form form) {
  launch().convert(a, c, form);
}

void CountingBackend::multiply_symmetric(std::span<const kernels::SquareMatrixBatch> a,
                                         std::span<const kernels::SquareMatrixBatch> b,
                                         kernels::Form operands, const kernels::Weights& weights,
                                         std::span<const kernels::SquareMatrixBatch> d,
                                         std::span<const kernels::SquareMatrixBatch> c,
                                         kernels::Form form) {
  launch().multiply_symmetric(a, b, operands, weights, d, c, form);
}

void CountingBackend::check_identity(std::span<const kernels::SquareMatrixBatch> m,
                                     kernels::Form form, double limit, const std::int32_t* proceed,
                                     const std::uint8_t* active, std::int32_t* failed) {
  launch().check_identity(m, form, limit, proceed, active, failed);
}

void CountingBackend::accumulate_whitened_factors(const kernels::PassContext& context,
                                                  std::span<const kernels::Stack> stacks,
                                                  std::span<const kernels::Selection> selected,
                                                  const void* masters, bool normalizes) {
  launch().accumulate_whitened_factors(context, stacks, selected, masters, normalizes);
}

void CountingBackend::precondition_in_eigenbasis(const kernels::PassContext& context,
                                                 std::span<const kernels::Stack> stacks,
                                                 std::span<const kernels::Selection> present,
                                                 const kernels::EigenbasisPass& pass) {
  launch().precondition_in_eigenbasis(context, stacks, present, pass);
}

void CountingBackend::rotate(const kernels::PassContext& context,
                             std::span<const kernels::Stack> stacks,
                             std::span<const kernels::Selection> present, bool transposed,
                             void* elements) {
  launch().rotate(context, stacks, present, transposed, elements);
}

void CountingBackend::load_bases(std::span<const kernels::BasisBatch> bases,
                                 std::span<const kernels::SquareMatrixBatch> q) {
  launch().load_bases(bases, q);
}

void CountingBackend::store_bases(std::span<const kernels::SquareMatrixBatch> q,
                                  std::span<const kernels::BasisBatch> bases,
                                  std::int32_t* failed) {
  launch().store_bases(q, bases, failed);
}

void CountingBackend::iterate_orthogonally(std::span<const kernels::SquareMatrixBatch> x,
                                           std::span<const kernels::SquareMatrixBatch> a,
                                           std::span<const kernels::SquareMatrixBatch> q,
                                           int iterations, const std::uint8_t* active) {
  launch().iterate_orthogonally(x, a, q, iterations, active);
}

void CountingBackend::sort_basis(std::span<const kernels::SquareMatrixBatch> a,
                                 std::span<const kernels::SquareMatrixBatch> x,
                                 std::span<const kernels::SquareMatrixBatch> q,
                                 std::span<const kernels::SquareMatrixBatch> s) {
  launch().sort_basis(a, x, q, s);
}

void CountingBackend::multiply_transposed(std::span<const kernels::SquareMatrixBatch> a,
                                          std::span<const kernels::SquareMatrixBatch> b,
                                          std::span<const kernels::SquareMatrixBatch> c) {
  launch().multiply_transposed(a, b, c);
}

}  // namespace shampoo::test
