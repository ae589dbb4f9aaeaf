// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "shampoo/recipe.h"

namespace shampoo {

namespace {

/// Writes `name(field=value, ...)`. std::to_chars gives the shortest text that reads back exactly,
/// in every locale.
class Text {
 public:
  explicit Text(std::string_view name) : text_(name) {}

  Text& field(std::string_view name, std::string_view value) {
    text_ += first_ ? "(" : ", ";
    first_ = false;
    text_ += name;
    text_ += '=';
    text_ += value;
    return *this;
  }
  Text& field(std::string_view name, const char* value) {
    return field(name, std::string_view(value));
  }
  Text& field(std::string_view name, bool value) { return field(name, value ? "true" : "false"); }
  Text& field(std::string_view name, const std::string& value) {
    return field(name, std::string_view(value));
  }
  template <typename Number>
  Text& field(std::string_view name, Number value) {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    return field(name,
                 std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
  }

  std::string done() const { return first_ ? text_ : text_ + ')'; }

 private:
  std::string text_;
  bool first_ = true;
};

struct ToText {
  std::string operator()(const Automatic&) const { return "automatic"; }
  std::string operator()(const Eigen& s) const {
    Text text("eigen");
    text.field("perturb_before", s.perturb_before).field("relative_floor", s.relative_floor);
    if (s.pseudo_inverse) {
      Text inverse("pseudo_inverse");
      if (s.pseudo_inverse->relative_tolerance)
        inverse.field("relative_tolerance", *s.pseudo_inverse->relative_tolerance);
      inverse.field("absolute_tolerance", s.pseudo_inverse->absolute_tolerance);
      text.field("rank", inverse.done());
    }
    return text.done();
  }
  std::string operator()(const CoupledNewton& s) const {
    return Text("coupled_newton")
        .field("max_iterations", s.max_iterations)
        .field("tolerance", s.tolerance)
        .done();
  }
  std::string operator()(const CoupledHigherOrder& s) const {
    return Text("coupled_higher_order")
        .field("relative_epsilon", s.relative_epsilon)
        .field("absolute_epsilon", s.absolute_epsilon)
        .field("max_iterations", s.max_iterations)
        .field("tolerance", s.tolerance)
        .field("order", s.order)
        .done();
  }
  std::string operator()(const Minimax& s) const {
    return Text("minimax")
        .field("kappa_max", s.kappa_max)
        .field("precision", s.precision == MinimaxPrecision::mixed ? "mixed" : "accurate")
        .done();
  }

  std::string operator()(const RootInverse& p) const {
    Text text("root_inverse");
    text.field("solver", std::visit(*this, p.solver));
    for (const Exponent& e : p.exponents) {
      Text exponent("at");
      exponent.field("order", e.order);
      if (e.dimension) exponent.field("dimension", *e.dimension);
      text.field("exponent", exponent.field("value", e.value).done());
    }
    if (p.trace_scaling) text.field("trace_scaling", *p.trace_scaling);
    return text.field("drop_weighting", p.drop_weighting)
        .field("tolerated_failures", p.tolerated_failures)
        .done();
  }

  std::string operator()(const Sgd&) const { return "sgd"; }
  std::string operator()(const AdaGrad&) const { return "adagrad"; }
  std::string operator()(const RmsProp& g) const {
    return Text("rmsprop").field("drop_weighting", g.drop_weighting).done();
  }
  std::string operator()(const Adam& g) const {
    return Text("adam").field("drop_weighting", g.drop_weighting).done();
  }

  std::string operator()(const NoAveraging&) const { return "none"; }
  std::string operator()(const Momentum& m) const {
    return Text("momentum").field("nesterov", m.nesterov).done();
  }
};

std::string_view name_of(WeightDecay decay) {
  switch (decay) {
    case WeightDecay::decoupled:
      return "decoupled";
    case WeightDecay::l2:
      return "l2";
    case WeightDecay::corrected:
      return "corrected";
    case WeightDecay::independent:
      return "independent";
  }
  return "";
}

std::string text_of(const Refresh& refresh) {
  Text text("refresh");
  text.field("every", refresh.every);
  if (refresh.first)
    text.field("first", *refresh.first);
  else
    text.field("first", "never");
  return text.field("staggered", refresh.staggered).done();
}

std::string text_of(const Blocking& blocking) {
  Text text("blocking");
  if (blocking.size == grouping::never_cut)
    text.field("size", "never_cut");
  else
    text.field("size", blocking.size);
  if (blocking.target_order == grouping::any_order)
    text.field("target_order", "any");
  else
    text.field("target_order", blocking.target_order);
  return text.done();
}

std::string text_of(const Shipping& shipping) {
  return Text("shipping")
      .field("type", shipping.type ? name_of(*shipping.type) : "own")
      .field("values", shipping.values)
      .done();
}

}  // namespace

std::vector<RecipeField> fields_of(const Recipe& recipe) {
  return {
      {"preconditioner", std::visit(ToText{}, recipe.preconditioner)},
      {"grafting", recipe.grafting ? std::visit(ToText{}, *recipe.grafting) : "none"},
      {"weight_decay", std::string(name_of(recipe.weight_decay))},
      {"averaging", std::visit(ToText{}, recipe.averaging)},
      {"refresh", text_of(recipe.refresh)},
      {"blocking", text_of(recipe.blocking)},
      {"bias_correction", recipe.bias_correction ? "true" : "false"},
      {"arithmetic", recipe.arithmetic == Arithmetic::float32 ? "float32" : "float64"},
      {"shipping", text_of(recipe.shipping)},
  };
}

std::string canonical_text(const Recipe& recipe) {
  Text text("recipe");
  for (const RecipeField& field : fields_of(recipe)) text.field(field.name, field.value);
  return text.done();
}

}  // namespace shampoo
