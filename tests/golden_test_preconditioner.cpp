// SPDX-License-Identifier: Apache-2.0
#include "tests/golden_test_preconditioner.h"

#include <array>
#include <charconv>
#include <set>

namespace shampoo::test {

namespace {

int integer_of(const Fields& fields, const std::string& key) {
  int value = 0;
  const char* const end = key.data() + key.size();
  const auto [stopped, fault] = std::from_chars(key.data(), end, value);
  if (fault != std::errc() || stopped != end) fields.refuse(key, "must be an integer");
  return value;
}

Eigen eigen_of(Fields& fields) {
  Eigen eigen{.perturb_before = fields.boolean_or("perturb_before", true)};
  const PseudoInverse cuts{.relative_tolerance = fields.number_or("rank_relative_tolerance", 0),
                           .absolute_tolerance = fields.number_or("rank_absolute_tolerance", 0)};
  if (fields.boolean_or("pseudo_inverse", false))
    eigen.pseudo_inverse = cuts;
  else if (cuts != PseudoInverse())
    fields.refuse("rank_relative_tolerance",
                  "and rank_absolute_tolerance: only with pseudo_inverse");
  return eigen;
}

void refuse_tolerance(Fields& fields) {
  if (fields.number_or("tolerance", 0) != 0) fields.refuse("tolerance", "only for eigenbases");
}

CoupledHigherOrder higher_order_of(Fields& fields) {
  return {
      .relative_epsilon = fields.number("relative_epsilon"),
      .absolute_epsilon = fields.number("absolute_epsilon"),
      .max_iterations = small_integer(fields, "max_iterations", fields.integer("max_iterations")),
      .tolerance = fields.number("tolerance"),
      .order = small_integer(fields, "order", fields.integer("order"))};
}

Solver solver_of(Fields fields) {
  const std::string kind = fields.text("kind");
  Solver solver;
  if (kind == "eigen") {
    solver = eigen_of(fields);
    refuse_tolerance(fields);
  } else if (kind == "coupled_newton") {
    solver = CoupledNewton{
        .max_iterations = small_integer(fields, "max_iterations", fields.integer("max_iterations")),
        .tolerance = fields.number("tolerance")};
  } else if (kind == "coupled_higher_order") {
    solver = higher_order_of(fields);
  } else {
    fields.refuse("kind", "unknown: " + kind);
  }
  fields.finish();
  return solver;
}

std::vector<Exponent> exponents_of(Fields fields) {
  std::vector<Exponent> exponents;
  for (const auto& [order, value] : fields.json().items()) {
    const int blocks = integer_of(fields, order);
    if (!value.is_object()) {
      exponents.push_back({blocks, std::nullopt, fields.number(order)});
      continue;
    }
    Fields dimensions = fields.object(order);
    for (const auto& [dimension, exponent] : value.items())
      exponents.push_back(
          {blocks, integer_of(dimensions, dimension), dimensions.number(dimension)});
  }
  return exponents;
}

BasisMethod basis_method_of(Fields fields) {
  const std::string kind = fields.text("kind");
  BasisMethod method;
  if (kind == "eigen") {
    const double tolerance = fields.number_or("tolerance", 0);
    const Eigen eigen = eigen_of(fields);
    method = Eigh{.perturb_before = eigen.perturb_before,
                  .pseudo_inverse = eigen.pseudo_inverse,
                  .tolerance = tolerance};
  } else if (kind == "qr") {
    method = Qr{.max_iterations =
                    small_integer(fields, "max_iterations", fields.integer_or("max_iterations", 1)),
                .tolerance = fields.number_or("tolerance", 0)};
  } else {
    fields.refuse("kind", "unknown: " + kind);
  }
  fields.finish();
  return method;
}

std::vector<IgnoredDimensions> ignored_dimensions_of(Fields fields) {
  std::vector<IgnoredDimensions> ignored;
  for (const auto& [order, list] : fields.json().items()) {
    IgnoredDimensions dimensions{integer_of(fields, order), {}};
    for (const Json& dimension : fields.at(order)) {
      if (!dimension.is_number_integer()) fields.refuse(order, "must be a list of integers");
      dimensions.dimensions.push_back(dimension.get<int>());
    }
    ignored.push_back(std::move(dimensions));
  }
  return ignored;
}

EigenvalueCorrected eigenvalue_corrected_of(Fields& fields) {
  EigenvalueCorrected soap;
  if (fields.has("solver")) soap.solver = basis_method_of(fields.object("solver"));
  if (fields.has("exponents")) soap.exponents = exponents_of(fields.object("exponents"));
  if (fields.has("ignored_basis_change_dims"))
    soap.ignored_basis_change_dims =
        ignored_dimensions_of(fields.object("ignored_basis_change_dims"));
  if (fields.has("trace_scaling")) soap.trace_scaling = fields.number("trace_scaling");
  soap.drop_weighting = fields.boolean_or("drop_weighting", false);
  return soap;
}

Eigendecomposed eigendecomposed_of(Fields& fields) {
  Eigendecomposed shampoo;
  if (fields.has("solver")) shampoo.solver = basis_method_of(fields.object("solver"));
  if (fields.has("exponents")) shampoo.exponents = exponents_of(fields.object("exponents"));
  if (fields.has("trace_scaling")) shampoo.trace_scaling = fields.number("trace_scaling");
  shampoo.drop_weighting = fields.boolean_or("drop_weighting", false);
  return shampoo;
}

RootInverse root_inverse_of(Fields& fields) {
  RootInverse shampoo{.solver = Eigen{}};
  if (fields.has("solver")) shampoo.solver = solver_of(fields.object("solver"));
  if (fields.has("exponents")) shampoo.exponents = exponents_of(fields.object("exponents"));
  if (fields.has("trace_scaling")) shampoo.trace_scaling = fields.number("trace_scaling");
  shampoo.drop_weighting = fields.boolean_or("drop_weighting", false);
  return shampoo;
}

/// Calls use(options) for the diagonal kind of this name. Returns whether there is one.
template <typename Use>
bool with_diagonal(const std::string& kind, Fields& fields, const Use& use) {
  const bool drops = fields.boolean_or("drop_weighting", false);
  if (kind == RmsProp::name) return use(RmsProp{.drop_weighting = drops}), true;
  if (kind == Adam::name) return use(Adam{.drop_weighting = drops}), true;
  if (drops) fields.refuse("drop_weighting", "not for " + kind);
  if (kind == Sgd::name) return use(Sgd{}), true;
  if (kind == AdaGrad::name) return use(AdaGrad{}), true;
  return false;
}

SpectralScale spectral_scale_of(Fields& fields) {
  const std::string scale = fields.text_or("scale", "none");
  if (scale == "none") return SpectralScale::none;
  if (scale == "spectral") return SpectralScale::spectral;
  if (scale == "match_rms") return SpectralScale::match_rms;
  fields.refuse("scale", "unknown: " + scale);
}

NewtonSchulz newton_schulz_of(Fields& fields) {
  NewtonSchulz solver;
  solver.iterations =
      small_integer(fields, "iterations", fields.integer_or("iterations", solver.iterations));
  if (fields.has("coefficients"))
    solver.coefficients = fields.at("coefficients").get<std::array<double, 3>>();
  return solver;
}

Spectral spectral_of(Fields& fields) {
  if (!fields.has("solver")) return {};
  Fields options = fields.object("solver");
  const std::string kind = options.text("kind");
  Spectral spectral{.scale = spectral_scale_of(options)};
  if (kind == "newton_schulz")
    spectral.solver = newton_schulz_of(options);
  else if (kind == "svd")
    spectral.solver =
        Svd{.scale_by_nuclear_norm = options.boolean_or("scale_by_nuclear_norm", false)};
  else
    options.refuse("kind", "unknown: " + kind);
  options.finish();
  return spectral;
}

}  // namespace

Preconditioner preconditioner_of(Fields fields) {
  const std::string kind = fields.text("kind");
  Preconditioner preconditioner;
  if (kind == "shampoo")
    preconditioner = root_inverse_of(fields);
  else if (kind == "eigendecomposed_shampoo")
    preconditioner = eigendecomposed_of(fields);
  else if (kind == "kl_shampoo")
    preconditioner = KullbackLeibler{.form = root_inverse_of(fields)};
  else if (kind == "eigendecomposed_kl_shampoo")
    preconditioner = KullbackLeibler{.form = eigendecomposed_of(fields)};
  else if (kind == "eigenvalue_corrected_shampoo")
    preconditioner = eigenvalue_corrected_of(fields);
  else if (kind == "sign_descent")
    preconditioner = Sign{};
  else if (kind == "spectral_descent")
    preconditioner = spectral_of(fields);
  else if (!with_diagonal(kind, fields, [&](const auto& options) { preconditioner = options; }))
    fields.refuse("kind", "unknown: " + kind);
  fields.finish();
  return preconditioner;
}

Diagonal grafting_of(Fields fields) {
  const std::string kind = fields.text("kind");
  Diagonal grafting;
  if (!with_diagonal(kind, fields, [&](const auto& options) { grafting = options; }))
    fields.refuse("kind", "unknown: " + kind);
  fields.finish();
  return grafting;
}

std::string unsupported_kind(const Fields& group) {
  Fields recipe = Fields(group).object("recipe");
  const std::string kind = recipe.object("preconditioner").text("kind");
  Fields none(recipe.json(), "");
  const std::set<std::string> matrices = {"shampoo",
                                          "kl_shampoo",
                                          "eigendecomposed_shampoo",
                                          "eigendecomposed_kl_shampoo",
                                          "eigenvalue_corrected_shampoo",
                                          "sign_descent",
                                          "spectral_descent"};
  const bool known = matrices.contains(kind) || with_diagonal(kind, none, [](const auto&) {});
  return known ? "" : "preconditioner " + kind;
}

}  // namespace shampoo::test
