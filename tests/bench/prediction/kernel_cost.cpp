// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/prediction/kernel_cost.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>
#include <variant>

#include "tests/bench/prediction/element_cost.h"
#include "tests/bench/prediction/gram_cost.h"

namespace shampoo::test {

namespace {

using namespace kernels::cuda;
using kernels::Float16;
using kernels::Form;
using kernels::SquareMatrixBatch;

/// of(task) for all blocks that a kernel with roots or bases works on.
template <typename Kernel, typename Of>
KernelCost cost_of_multiplied(const Kernel& kernel, const Of& of) {
  KernelCost cost;
  for_each_member(kernel.list, [&](const auto& task, std::int64_t row) {
    if (kernel.accumulates ? kernel.phase.accumulates(row) : kernel.phase.preconditions(row))
      cost += of(task);
  });
  return cost;
}

/// One triangle of a root, as the array has it.
double root_bytes(kernels::FactorLayout layout, std::int64_t n, Type type) {
  const bool narrow = layout == kernels::FactorLayout::with_float16_root;
  return triangle(n) * static_cast<double>(narrow ? sizeof(Float16) : size_of(type));
}

/// Elements read and written, and the root or basis.
template <typename Real>
KernelCost mode_cost(const ModeProduct<Real>& kernel) {
  return cost_of_multiplied(kernel, [](const ModeTask& task) {
    const std::int64_t n = task.shape.side;
    const double matrix = task.is_basis ? static_cast<double>(n * n) * sizeof(Real)
                                        : root_bytes(task.layout, n, type_of_real<Real>);
    return KernelCost{2.0 * sizeof(Real) * static_cast<double>(task.shape.elements()) + matrix,
                      tile_flops(task.tiles, mode_tile, n)};
  });
}

/// Whole roots, as both triangles of what is stored are read, or bases.
template <typename Real>
KernelCost vector_cost(const VectorProduct<Real>& kernel) {
  return cost_of_multiplied(kernel, [](const ModeTask& task) {
    const auto n = static_cast<double>(task.shape.side);
    const bool narrow = task.layout == kernels::FactorLayout::with_float16_root && !task.is_basis;
    return KernelCost{n * n * static_cast<double>(narrow ? sizeof(Float16) : sizeof(Real)), 0};
  });
}

/// Roots read, and whole matrices written.
template <typename Dense>
KernelCost unpack_cost(const UnpackRoots<Dense>& kernel) {
  using Real = typename UnpackRoots<Dense>::Real;
  return cost_of_multiplied(kernel, [](const RootTask& task) {
    const std::int64_t n = task.side;
    return KernelCost{
        root_bytes(task.layout, n, type_of_real<Real>) + static_cast<double>(n * n) * sizeof(Dense),
        0};
  });
}

KernelCost narrowing(const NarrowDirections& kernel) {
  KernelCost cost;
  for_each_member(kernel.list, [&](const NarrowTask& task, std::int64_t row) {
    if (kernel.phase.preconditions(row))
      cost.bytes += static_cast<double>(task.elements) * (sizeof(float) + sizeof(Float16));
  });
  return cost;
}

template <typename Real>
KernelCost gather_cost(const GatherGradients<Real>& kernel) {
  const ProductPhase& phase = kernel.phase;
  return cost_of_tiles(phase.elements, [&](const kernels::Tile& tile) {
    if (!phase.accumulates(tile.block) || (!kernel.all && phase.reads_in_place(tile.block)))
      return 0.0;
    return static_cast<double>(size_of(phase.elements.tensors.gradient_types[tile.tensor]) +
                               sizeof(Real));
  });
}

/// of(matrices of one side, n, how many) for the groups of a batch
template <typename Group, typename Of>
KernelCost cost_of_groups(const Batch<Group>& batch, const Of& of) {
  KernelCost cost;
  for (int g = 0; g < batch.count; ++g) {
    const auto count = static_cast<double>(batch.groups[g].count());
    const KernelCost each = of(batch.groups[g]);
    cost += {count * each.bytes, count * each.flops};
  }
  return cost;
}

double form_bytes(Form form) {
  return form == Form::half    ? sizeof(Float16)
         : form == Form::split ? 2 * sizeof(Float16)
                               : sizeof(float);
}

/// Of an element of square matrices, which may have no forms.
double element_bytes(const SquareMatrixBatch& squares, Form form) {
  return has_forms(squares) ? form_bytes(form) : static_cast<double>(size_of(squares.type));
}

/// Whole matrices, and bytes_of(pairs) of what they are unpacked from or packed into.
template <typename BytesOf>
KernelCost packing(const Batch<PackedMatrixGroup>& batch, Form form, const BytesOf& bytes_of) {
  return cost_of_groups(batch, [&](const PackedMatrixGroup& group) {
    const auto n = static_cast<double>(group.squares.side);
    return KernelCost{bytes_of(group.pairs) + n * n * element_bytes(group.squares, form), 0};
  });
}

/// Whole matrices of the first array's side and type, one of each form.
template <typename Group>
KernelCost passes(const Batch<Group>& batch, std::initializer_list<Form> forms) {
  return cost_of_groups(batch, [&](const Group& group) {
    const auto n = static_cast<double>(group.x.side);
    KernelCost cost;
    for (const Form form : forms) cost += {n * n * element_bytes(group.x, form), 0};
    return cost;
  });
}

/// A, B where it is another matrix, one triangle of D where it is a third one, and the result;
/// lower tiles of one product of halves or three.
KernelCost formed_product(const FormedProduct& kernel) {
  return cost_of_groups(kernel.batch, [&](const FourOf& group) {
    const std::int64_t n = group.c.side;
    const double all = static_cast<double>(n) * static_cast<double>(n);
    const bool is_square = group.a.data == group.b.data;
    const bool reads_third =
        kernel.of_d != 0 && group.d.data != group.a.data && group.d.data != group.b.data;
    const double bytes =
        form_bytes(kernel.operands) * ((is_square ? 1 : 2) * all + (reads_third ? triangle(n) : 0));
    const int products = kernel.operands == Form::split ? 3 : 1;
    return KernelCost{
        bytes + all * form_bytes(kernel.form),
        products * tile_flops(lower_tiles(n, FormedProduct::side), FormedProduct::side, n)};
  });
}

/// A product of square matrices, or its lower tiles, and three passes over whole ones.
template <int Side, typename Group>
KernelCost square_product(const Batch<Group>& batch, bool lower, SquareMatrixBatch Group::*result) {
  return cost_of_groups(batch, [&](const Group& group) {
    const std::int64_t n = (group.*result).side, across = ceiling(n, Side);
    const std::int64_t tiles = lower ? lower_tiles(n, Side) : across * across;
    const auto side = static_cast<double>(n);
    return KernelCost{3 * side * side * static_cast<double>(size_of((group.*result).type)),
                      tile_flops(tiles, Side, n)};
  });
}

struct CostOf {
  template <typename Real>
  KernelCost operator()(const ScanTile<Real>& k) const {
    return scan_cost(k.gradients);
  }
  template <typename Real>
  KernelCost operator()(const FilterTile<Real>& k) const {
    return filter_cost<Real>(k.context, k.pass, true);
  }
  template <typename Real>
  KernelCost operator()(const UpdateTile<Real>& k) const {
    return update_cost<Real>(k.context, k.pass, true);
  }
  template <typename Real>
  KernelCost operator()(const FilterAndUpdateTile<Real>& k) const {
    KernelCost cost = filter_cost<Real>(k.context, k.gradients, false);
    return cost += update_cost<Real>(k.context, k.pass, false);
  }
  KernelCost operator()(const ApplyTile& k) const { return apply_cost(k); }
  template <typename Real>
  KernelCost operator()(const GatherGradients<Real>& k) const {
    return gather_cost(k);
  }
  template <typename Real>
  KernelCost operator()(const TakeDirections<Real>& k) const {
    return cost_of_tiles(k.phase.elements, [&](const kernels::Tile& tile) {
      return k.phase.preconditions(tile.block) ? (k.moves ? 2.0 : 1.0) * sizeof(Real) : 0.0;
    });
  }
  template <typename Dense>
  KernelCost operator()(const UnpackRoots<Dense>& k) const {
    return unpack_cost(k);
  }
  KernelCost operator()(const NarrowDirections& k) const { return narrowing(k); }
  KernelCost operator()(const HalfGram& k) const { return half_gram_cost(k); }
  KernelCost operator()(const AddGram& k) const { return add_cost(k); }
  KernelCost operator()(const SplitGradients& k) const { return split_cost(k); }
  template <typename Real, int Side>
  KernelCost operator()(const Gram<Real, Side>& k) const {
    return gram_cost(k);
  }
  template <typename Real>
  KernelCost operator()(const ModeProduct<Real>& k) const {
    return mode_cost(k);
  }
  template <typename Real>
  KernelCost operator()(const VectorProduct<Real>& k) const {
    return vector_cost(k);
  }
  KernelCost operator()(const UnpackFactors& k) const {
    return packing(k.batch, k.loading.form, [](const auto& factors) {
      return triangle(factors.side) * static_cast<double>(size_of(factors.type));
    });
  }
  KernelCost operator()(const PackRoots& k) const {
    return packing(k.batch, Form::dense, [&](const auto& roots) {
      return k.writes ? root_bytes(roots.layout, roots.side, roots.type) : 0.0;
    });
  }
  KernelCost operator()(const FormedProduct& k) const { return formed_product(k); }
  KernelCost operator()(const Convert& k) const { return passes(k.batch, {Form::dense, k.form}); }
  KernelCost operator()(const Damp& k) const {
    return passes(k.batch, {k.form, Form::dense, k.form, k.form});
  }
  KernelCost operator()(const Combine& k) const {
    return passes(k.batch, {Form::dense, Form::dense});
  }
  KernelCost operator()(const MeasureParts& k) const { return passes(k.batch, {k.form}); }
  template <typename Real, int Side>
  KernelCost operator()(const SymmetricProduct<Real, Side>& k) const {
    return square_product<Side>(k.batch, true, &kernels::cuda::FourOf::c);
  }
  template <typename Real, int Side>
  KernelCost operator()(const SquareProduct<Real, Side>& k) const {
    return square_product<Side>(k.batch, false, &ThreeOf::c);
  }
  template <typename Other>
  KernelCost operator()(const Other&) const {
    return {};
  }
};

}  // namespace

std::string name_of(const Kernel& kernel) {
  const char* const mangled =
      std::visit([](const auto& program) { return typeid(program).name(); }, kernel);
  const std::unique_ptr<char, decltype(&std::free)> whole(
      abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr), &std::free);
  const std::string name = whole.get(), scope = "shampoo::kernels::cuda::";
  return name.starts_with(scope) ? name.substr(scope.size()) : name;
}

KernelCost cost_of(const Kernel& kernel) { return std::visit(CostOf(), kernel); }

KernelCost cost_of(const Product& p) {
  const auto m = static_cast<double>(p.rows), n = static_cast<double>(p.columns);
  const auto k = static_cast<double>(p.depth), count = static_cast<double>(p.count);
  const auto bytes = [](Type type) { return static_cast<double>(size_of(type)); };
  const double c = m * n * bytes(p.c_type);
  return {count * (m * k * bytes(p.a.type) + k * n * bytes(p.b.type) + (p.beta == 0 ? c : 2 * c)),
          2 * count * m * n * k};
}

}  // namespace shampoo::test
