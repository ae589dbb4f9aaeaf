// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "shampoo/kernels/solvers/solver.h"
#include "shampoo/kernels/types.h"

/// The kinds of preconditioners, with their options. Each struct has a `name` and calls visit(name,
/// field) for its fields in for_each_field(visit, self): texts and hashes of recipes come from
/// that.
namespace shampoo {

/// Replaces the inverse exponent of one dimension, or of all, for blocks of one order. Later
/// entries win. Unnamed dimensions keep 1 / (2 order).
struct Exponent {
  static constexpr std::string_view name = "exponent";
  int order = 2;  ///< order of the block, >= 0
  /// Dimension of the block, in [0, max(order, 1)); empty: all.
  std::optional<int> dimension = std::nullopt;
  double value = 0.25;  ///< the root is L^-value; >= 0; 0 leaves the dimension alone
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("order", self.order);
    visit("dimension", self.dimension);
    visit("value", self.value);
  }
  bool operator==(const Exponent&) const = default;
};

/// Shampoo: one Kronecker factor per dimension of a block and its inverse root, P = F x_k L_k^-e_k
/// with e_k = 1 / (2 order) [Gupta 2018, Algorithm 2; Anil 2020]. Reads the rates beta2 and
/// epsilon.
struct RootInverse {
  static constexpr std::string_view name = "root_inverse";
  Solver solver = Automatic{};
  std::vector<Exponent> exponents = {};
  /// Factors are divided by trace^exponent before the root [Eschenhagen 2025]; in (0, 1]; empty:
  /// they are not.
  std::optional<double> trace_scaling = std::nullopt;
  /// New statistics enter with weight 1 instead of 1 - beta2, without bias correction.
  bool drop_weighting = false;
  /// Consecutive failed refreshes of a block, its old roots kept, before step() throws; >= 0.
  int tolerated_failures = 3;
  /// False: blocks of less than two dimensions, after merging, have no factor. Their direction is
  /// that of the grafting, or F without one.
  bool precondition_1d = true;
  /// Type in which roots are kept: float16, or that of Recipe::arithmetic unless set. In float16 an
  /// element of a root R is off by at most 2^-11 |R_ij| + 2^-25 sqrt(R_ii R_jj), and root and
  /// factor take 6 bytes per element of a triangle instead of 8. Products are in
  /// Recipe::arithmetic.
  std::optional<Type> root_type = std::nullopt;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("solver", self.solver);
    visit("exponents", self.exponents);
    visit("trace_scaling", self.trace_scaling);
    visit("drop_weighting", self.drop_weighting);
    visit("tolerated_failures", self.tolerated_failures);
    visit("precondition_1d", self.precondition_1d);
    visit("root_type", self.root_type);
  }
  bool operator==(const RootInverse&) const = default;
};

/// Shampoo whose factors are kept as eigenvalues l and eigenbases Q at a refresh: P = F x_k Q_k
/// diag(l_k)^-e_k Q_k^T. The rules that damp l take effect at every step, with the current epsilon.
/// Without grafting it acts from the first step on, with Q_k = I and l_k = 1 until the first
/// refresh. Reads the rates beta2 and epsilon.
struct Eigendecomposed {
  static constexpr std::string_view name = "eigendecomposed";
  BasisMethod solver = Eigh{};
  std::vector<Exponent> exponents = {};                ///< as RootInverse
  std::optional<double> trace_scaling = std::nullopt;  ///< as RootInverse
  bool drop_weighting = false;                         ///< as RootInverse
  int tolerated_failures = 3;                          ///< as RootInverse, of bases
  bool precondition_1d = true;                         ///< as RootInverse
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("solver", self.solver);
    visit("exponents", self.exponents);
    visit("trace_scaling", self.trace_scaling);
    visit("drop_weighting", self.drop_weighting);
    visit("tolerated_failures", self.tolerated_failures);
    visit("precondition_1d", self.precondition_1d);
  }
  bool operator==(const Eigendecomposed&) const = default;
};

/// KL-Shampoo: each factor gathers G preconditioned along all other dimensions with the stored
/// roots, C_k = H H^T with H = G x_{j != k} R_j [Lin 2025, equation 5]. Everything else is that of
/// its form. With the exponents of the form's defaults, 1 / (2 order), and without normalization it
/// is Shi 2023's code; Lin 2025 has the exponent 1/2 and normalizes: recipes::kl_shampoo().
struct KullbackLeibler {
  static constexpr std::string_view name = "kullback_leibler";
  std::variant<RootInverse, Eigendecomposed> form = RootInverse{};
  /// C_k is divided by the number of elements that it sums over for one of its own: the product of
  /// the other sides.
  bool normalize = false;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("form", self.form);
    visit("normalize", self.normalize);
  }
  bool operator==(const KullbackLeibler&) const = default;
};

/// Dimensions of blocks of one order that keep their coordinates.
struct IgnoredDimensions {
  static constexpr std::string_view name = "ignored_dimensions";
  int order = 2;  ///< order of the block, >= 0
  std::vector<int>
      dimensions;  ///< dimensions of the block, each in [0, max(order, 1)), no two equal
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("order", self.order);
    visit("dimensions", self.dimensions);
  }
  bool operator==(const IgnoredDimensions&) const = default;
};

/// SOAP, or eigenvalue-corrected Shampoo: Adam's second moment in the eigenbases Q_k of the
/// Kronecker factors [Vyas 2024; George 2018; Eschenhagen 2025]. E <- beta2 E + (1 - beta2) (G
/// rotated)^2 and P = F rotated / ((E / (1 - beta2^t))^exponent + epsilon), rotated back. E stays
/// as it is when a basis changes, as in Shi 2023's code; the first moment is carried into the new
/// basis, or with grafting stays in the parameter's coordinates. Without grafting it acts from the
/// first step on, with Q_k = I until the first refresh: then it is Adam. Reads the rates beta2 and
/// epsilon.
struct EigenvalueCorrected {
  static constexpr std::string_view name = "eigenvalue_corrected";
  BasisMethod solver = Eigh{};  ///< without pseudo_inverse and relative_floor
  /// Inverse exponents of E by order, > 0 and without a dimension. Unnamed orders have 1/2.
  std::vector<Exponent> exponents = {};
  std::vector<IgnoredDimensions> ignored_basis_change_dims = {};
  std::optional<double> trace_scaling = std::nullopt;  ///< of factors, as RootInverse
  /// Statistics and squares enter with weight 1 instead of 1 - beta2, without bias correction.
  bool drop_weighting = false;
  int tolerated_failures = 3;  ///< as RootInverse, of bases
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("solver", self.solver);
    visit("exponents", self.exponents);
    visit("ignored_basis_change_dims", self.ignored_basis_change_dims);
    visit("trace_scaling", self.trace_scaling);
    visit("drop_weighting", self.drop_weighting);
    visit("tolerated_failures", self.tolerated_failures);
  }
  bool operator==(const EigenvalueCorrected&) const = default;
};

/// P = F.
struct Sgd {
  static constexpr std::string_view name = "sgd";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const Sgd&) const = default;
};
/// V <- V + G^2 ; P = F / (sqrt(V) + epsilon) [Duchi 2011]. As a preconditioner it reads the rate
/// learning_rate_decay.
struct AdaGrad {
  static constexpr std::string_view name = "adagrad";
  /// Initial value of V, >= 0 (torch: initial_accumulator_value). Read when V is created.
  double initial_accumulator = 0;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("initial_accumulator", self.initial_accumulator);
  }
  bool operator==(const AdaGrad&) const = default;
};
/// V <- beta2 V + (1 - beta2) G^2 ; P = F / (sqrt(V) + epsilon) [Tieleman 2012].
struct RmsProp {
  static constexpr std::string_view name = "rmsprop";
  bool drop_weighting = false;  ///< squares enter with weight 1 instead of 1 - beta2
  /// A <- lerp(A, G, 1 - beta2), and V - A^2 stands for V in P [Graves 2013]. Not together with
  /// drop_weighting.
  bool centered = false;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("drop_weighting", self.drop_weighting);
    visit("centered", self.centered);
  }
  bool operator==(const RmsProp&) const = default;
};
/// RmsProp with V divided by its bias correction 1 - beta2^t [Kingma 2015, Algorithm 1].
struct Adam {
  static constexpr std::string_view name = "adam";
  bool drop_weighting = false;  ///< as RmsProp; then without bias correction
  /// The largest V so far, before bias correction, stands for V in P [Reddi 2018, Algorithm 2]. Not
  /// together with drop_weighting.
  bool amsgrad = false;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("drop_weighting", self.drop_weighting);
    visit("amsgrad", self.amsgrad);
  }
  bool operator==(const Adam&) const = default;
};

/// Optimizers that work element by element. As a preconditioner they read the rates beta2 and
/// epsilon, and a block needs no refresh. As grafting they read grafting_beta2 and
/// grafting_epsilon, and give each block the norm of their own direction.
using Diagonal = std::variant<Sgd, AdaGrad, RmsProp, Adam>;

/// P = sign(F), with sign(0) = 0 [Bernstein 2018]. Reads neither beta2 nor epsilon.
struct Sign {
  static constexpr std::string_view name = "sign";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const Sign&) const = default;
};

/// Factor of an orthogonalised block of m rows and n columns.
enum class SpectralScale : std::uint8_t {
  none,      ///< 1
  spectral,  ///< sqrt(max(1, m / n)) [Jordan 2024]
  match_rms  ///< 0.2 sqrt(max(m, n)): P has about the root mean square of Adam's [Liu 2025]
};

/// Muon, spectral descent: P = scale U V^T where F = U S V^T, to the accuracy of the solver
/// [Jordan 2024; Carlson 2015]. Reads neither beta2 nor epsilon. For hidden matrices, and
/// convolutions with Blocking::target_order 2: a block of another order is an error. Vectors,
/// scalars, embeddings and heads belong to another group, for instance with recipes::adamw().
struct Spectral {
  static constexpr std::string_view name = "spectral";
  Orthogonalizer solver = NewtonSchulz{};
  SpectralScale scale = SpectralScale::none;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("solver", self.solver);
    visit("scale", self.scale);
  }
  bool operator==(const Spectral&) const = default;
};

/// How the direction P follows from the filtered gradient F.
using Preconditioner = std::variant<RootInverse, Eigendecomposed, EigenvalueCorrected,
                                    KullbackLeibler, Sgd, AdaGrad, RmsProp, Adam, Sign, Spectral>;

struct NoUpdateScaling {
  static constexpr std::string_view name = "none";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const NoUpdateScaling&) const = default;
};
/// P <- P min(1, limit / rms(P)): the root mean square over a block is at most `limit`
/// [Shazeer 2018, section 6].
struct UpdateClipping {
  static constexpr std::string_view name = "clipping";
  double limit = 1;  ///< in (0, inf)
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("limit", self.limit);
  }
  bool operator==(const UpdateClipping&) const = default;
};
/// D <- D min(most, coefficient |W| / |D|) over a block, D = P with its decoupled decay; D where a
/// norm is 0 [You 2017], [You 2020].
struct TrustRatio {
  static constexpr std::string_view name = "trust_ratio";
  double coefficient = 1;  ///< in (0, inf)
  double most = 10;        ///< in (0, inf)
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("coefficient", self.coefficient);
    visit("most", self.most);
  }
  bool operator==(const TrustRatio&) const = default;
};
/// A factor on every block's direction, after grafting, before momentum and the learning rate. Its
/// norms take one pass over the directions, which then are in memory. A block is a parameter where
/// Blocking does not cut it.
using UpdateScaling = std::variant<NoUpdateScaling, UpdateClipping, TrustRatio>;

}  // namespace shampoo
