// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "kernels/cpu/basis_product.h"
#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/gather_gradient.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/mode_products.h"
#include "kernels/cpu/root_products.h"
#include "kernels/cpu/with_real.h"
#include "kernels/rules/factor_layout.h"

namespace shampoo::kernels {

namespace {

/// C = sum over `before` of S S^T, with S side x after. The row-major S is BLAS's S^T; a lower
/// triangle is its upper one.
template <typename Real>
class Contraction {
 public:
  Contraction(const Dimension& at, const GradientRows<Real>& rows)
      : data_(rows.data),
        side_(static_cast<int>(at.side)),
        // A last dimension is contracted at once: A^T A with A before x side.
        is_last_(at.after == 1),
        inner_(static_cast<int>(is_last_ ? at.before : at.after)),
        slices_(is_last_ ? 1 : at.before),
        stride_(static_cast<int>(rows.stride != 0 ? rows.stride
                                 : is_last_       ? at.side
                                                  : at.after)),
        slice_(at.side * at.after) {}

  /// Lower triangle of L <- keep L + add C, with `row` elements from one row of L to the next
  void accumulate(Real keep, Real add, Real* l, int row) const {
    for (std::int64_t s = 0; s < slices_; ++s)
      blas::syrk('U', is_last_ ? 'N' : 'T', side_, inner_, add, data_ + s * slice_, stride_,
                 s == 0 ? keep : Real(1), l, row);
  }

  bool is_blocked() const { return has_block_product<Real>({side_, side_, inner_}); }
  /// The same where is_blocked(), in either layout
  void accumulate_blocked(const MemoryAhead& then, Real keep, Real add, Real* l, bool packed,
                          Real* scratch) const {
    for (std::int64_t s = 0; s < slices_; ++s) {
      const BlockOperand<Real> operand{data_ + s * slice_, stride_, !is_last_};
      block_products<Real>().accumulate(side_, inner_, operand,
                                        s + 1 == slices_ ? then : MemoryAhead{},
                                        s == 0 ? keep : Real(1), add, l, packed, scratch);
    }
  }

  /// C, both triangles
  void form(Real* c) const {
    const char first = is_last_ ? 'N' : 'T', second = is_last_ ? 'T' : 'N';
    for (std::int64_t s = 0; s < slices_; ++s) {
      const Real* const slice = data_ + s * slice_;
      blas::gemm(first, second, side_, side_, inner_, Real(1), slice, stride_, slice, stride_,
                 s == 0 ? Real(0) : Real(1), c, side_);
    }
  }

 private:
  const Real* data_;
  int side_;
  bool is_last_;
  int inner_;
  std::int64_t slices_;
  int stride_;
  std::int64_t slice_;
};

/// L_k <- keep L_k + add C_k for one dimension. `then`: fetched meanwhile; `dense`: scratch memory
/// for C; `scratch`: of products.
template <typename Real>
void accumulate_factor(const VectorKernels<Real>& vector, const Dimension& at,
                       const GradientRows<Real>& rows, bool packed, const MemoryAhead& then,
                       Real keep, Real add, Real* factor, Real* dense, Real* scratch) {
  const int side = static_cast<int>(at.side);
  if (at.before * at.after == 1) {
    vector.rank_one(factor, packed, at.side, rows.data, keep, add);
  } else if (const Contraction<Real> contraction(at, rows); contraction.is_blocked()) {
    contraction.accumulate_blocked(then, keep, add, factor, packed, scratch);
  } else if (at.side <= longest_dense_factor) {
    Contraction<Real>(at, rows).form(dense);
    vector.blend(factor, packed, at.side, dense, keep, add);
  } else if (packed) {
    Contraction<Real>(at, rows).accumulate(Real(0), Real(1), dense, side);
    vector.blend(factor, packed, at.side, dense, keep, add);
  } else {
    Contraction<Real>(at, rows).accumulate(keep, add, factor, side + 1);
  }
}

bool has_factor(const Stack& stack) {
  return std::ranges::any_of(stack.factors, [](const void* l) { return l != nullptr; });
}

template <typename Real>
Real* factor_of(const Stack& stack, std::int64_t index, std::size_t k) {
  return static_cast<Real*>(stack.factors[k]) +
         index * array_elements(stack.layout, stack.extent[k], sizeof(Real));
}

/// Factors of a block from dimension k on: the first.
template <typename Real>
RowsAhead factor_ahead(const Stack& stack, std::int64_t index, std::size_t k) {
  while (k < stack.extent.size() && stack.factors[k] == nullptr) ++k;
  if (k == stack.extent.size()) return {};
  const FactorLayout read = is_packed(stack.layout) ? FactorLayout::packed : stack.layout;
  return ahead(factor_of<Real>(stack, index, k),
               array_elements(read, stack.extent[k], sizeof(Real)));
}

template <typename Real>
void accumulate_block(const GradientContext& context, const Stack& stack, std::int64_t index,
                      const MemoryAhead& companion, const MemoryAhead& next, Scratch& scratch) {
  const std::int64_t block = stack.first_block + index;
  const Coefficients& c = context.phase.coefficients[block];
  const VectorKernels<Real>& vector = context.level.in<Real>();
  const GradientRows<Real> rows = fetch_gradient_rows<Real>(
      context, stack, block, scratch.take<Real>(elements_of(stack.extent)), true);
  const Real keep = static_cast<Real>(c.factor_keep);
  const Real add = static_cast<Real>(c.factor_add * (rows.scale * rows.scale));
  Real* const dense = scratch.take<Real>(dense_factor_elements(stack));
  Real* const products = scratch.take<Real>(product_scratch(stack));

  bool is_first = true;
  for (std::size_t k = 0; k < stack.extent.size(); ++k) {
    if (stack.factors[k] == nullptr) continue;
    const RowsAhead own = factor_ahead<Real>(stack, index, k + 1);
    MemoryAhead then{own};
    if (std::exchange(is_first, false)) then.add(companion);
    if (own.rows == 0) then.add(next);
    accumulate_factor(vector, dimension_of(stack.extent, k), rows, is_packed(stack.layout), then,
                      keep, add, factor_of<Real>(stack, index, k), dense, products);
  }
}

/// H <- G along all dimensions but k
template <typename Real>
class Whitening {
 public:
  Whitening(const VectorKernels<Real>& vector, const Stack& stack, std::int64_t index,
            Scratch& scratch)
      : stack_(stack),
        roots_(vector, stack, index, scratch),
        rotation_(stack, index, scratch),
        other_(scratch.take<Real>(elements_of(stack.extent))) {}

  void apply(Real* h, std::size_t k) const {
    if (stack_.bases.empty()) return roots_.apply(h, {}, {}, k);
    rotation_.into(h, other_, k);
    rotation_.scale(h, k);
  }

 private:
  const Stack& stack_;
  RootProducts<Real> roots_;
  BlockRotation<Real> rotation_;
  Real* other_;
};

template <typename Real>
void accumulate_whitened_block(const GradientContext& context, const Stack& stack,
                               std::int64_t index, bool normalizes, Scratch& scratch) {
  const std::int64_t block = stack.first_block + index, elements = elements_of(stack.extent);
  const Coefficients& c = context.phase.coefficients[block];
  const VectorKernels<Real>& vector = context.level.in<Real>();
  const Whitening<Real> whitening(vector, stack, index, scratch);
  Real* const g = scratch.take<Real>(elements);
  Real* const h = scratch.take<Real>(elements);
  Real* const dense = scratch.take<Real>(dense_factor_elements(stack));
  Real* const products = scratch.take<Real>(product_scratch(stack));
  gather_gradient(context, block, g);

  for (std::size_t k = 0; k < stack.extent.size(); ++k) {
    if (stack.factors[k] == nullptr) continue;
    const Dimension at = dimension_of(stack.extent, k);
    std::copy(g, g + elements, h);
    whitening.apply(h, k);
    const double others = normalizes ? static_cast<double>(elements / at.side) : 1;
    accumulate_factor(vector, at, GradientRows<Real>{.data = h}, is_packed(stack.layout), {},
                      static_cast<Real>(c.factor_keep), static_cast<Real>(c.factor_add / others),
                      factor_of<Real>(stack, index, k), dense, products);
  }
}

}  // namespace

void CpuBackend::accumulate_factors(const PassContext& phase, std::span<const Stack> stacks,
                                    std::span<const Selection> selected, const void* masters) {
  if (*phase.proceed == 0) return;
  const GradientContext context{phase, level_, static_cast<const float*>(masters)};
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    if (has_factor(stacks[s]))
      workers_.schedule.add(s, selected[s].count, product_cost(stacks[s], 1));

  workers_.run_schedule_ahead([&](const Schedule::Task& task, const TasksAhead& tasks_ahead,
                                  Scratch& scratch) {
    with_real(phase.elements.arithmetic, [&]<typename Real>(Real*) {
      const auto index_of = [&](const Schedule::Task& t) {
        return selected[t.group].blocks[t.member];
      };
      const auto read_by = [&](const std::optional<Schedule::Task>& t) -> MemoryAhead {
        if (!t) return {};
        const Stack& stack = stacks[t->group];
        return {gradient_ahead<Real>(context, stack, stack.first_block + index_of(*t)),
                factor_ahead<Real>(stack, index_of(*t), 0)};
      };
      accumulate_block<Real>(context, stacks[task.group], index_of(task),
                             read_by(tasks_ahead.companion), read_by(tasks_ahead.next), scratch);
    });
  });
}

void CpuBackend::accumulate_whitened_factors(const PassContext& phase,
                                             std::span<const Stack> stacks,
                                             std::span<const Selection> selected,
                                             const void* masters, bool normalizes) {
  if (*phase.proceed == 0) return;
  const GradientContext context{phase, level_, static_cast<const float*>(masters)};
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, selected[s].count, product_cost(stacks[s], 3));

  workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
    with_real(phase.elements.arithmetic, [&]<typename Real>(Real*) {
      accumulate_whitened_block<Real>(context, stacks[s], selected[s].blocks[member], normalizes,
                                      scratch);
    });
  });
}

}  // namespace shampoo::kernels
