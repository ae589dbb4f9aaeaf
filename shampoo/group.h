// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shampoo/gradient_options.h"
#include "shampoo/grouping/box.h"
#include "shampoo/kernels/types.h"
#include "shampoo/rates.h"
#include "shampoo/recipe.h"
#include "shampoo/schedules.h"

namespace shampoo {

using grouping::Box;

/// View of the elements of a tensor in the backend's memory. Borrowed.
struct Tensor {
  void* data = nullptr;
  Type type = Type::float32;
  std::vector<std::int64_t> strides;  ///< strides in elements, >= 0; empty: row-major

  Tensor() = default;
  Tensor(float* elements) : data(elements) {}
  Tensor(double* elements) : data(elements), type(Type::float64) {}
  Tensor(void* elements, Type element_type, std::vector<std::int64_t> element_strides = {})
      : data(elements), type(element_type), strides(std::move(element_strides)) {}
};

/// A tensor has fewer elements, and so has a slab of several.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 40;
inline constexpr std::int64_t most_layers = 1 << 20;

/// One tensor of the caller's model. Borrowed: value and gradient must outlive the optimizer.
/// step() writes the value and never the gradient. Group::set_gradient() changes where it lies.
/// Values are equal on all ranks, see OptimizerOptions::compare_values_every.
struct Parameter {
  /// Unique among all parameters of the optimizer, not empty, UTF-8, of at most 32 KiB.
  std::string name = {};
  /// Global shape, of less than 2^40 elements; empty: a scalar. Layers that are stacked in one
  /// tensor are parameters of their own: as one, they would get a Kronecker factor across layers.
  std::vector<std::int64_t> shape = {};
  /// Reserved: only the whole tensor is accepted, std::invalid_argument otherwise.
  std::optional<Box> box = std::nullopt;
  Tensor value = {};     ///< value of any type; 16-bit types have a float32 master
  Tensor gradient = {};  ///< own type and strides; null data: absent, as grad = None
  /// The recipe that whoever makes the parameter wants for it. Routes gives it a group with that; a
  /// group with another recipe is refused.
  std::optional<Recipe> recipe = std::nullopt;
  /// step() leaves the value alone; there is no state, and nothing is sent. A gradient, if it has
  /// one, is part of the norm and must be finite. add_group() with a parameter of this name that is
  /// not frozen thaws it: that one then stands for both.
  bool frozen = false;
};

/// Schedules of rates, by the rates' names.
using RateSchedules = std::map<std::string, Schedule, std::less<>>;

/// Parameters with one set of rates and one recipe.
struct ParameterGroup {
  std::vector<Parameter> parameters = {};  ///< at least one parameter
  Rates rates = {};
  Recipe recipe = {};
  RateSchedules schedules = {};  ///< see Group::schedules
  std::string label = {};        ///< for logs, describe() and errors; see Group::label()
};

/// Names all parameters "g<group>.p<index>" if none has a name, for callers without names. Throws
/// std::invalid_argument where some have one and some have not, with nothing changed.
void name_parameters(std::vector<ParameterGroup>& groups);

/// The parameters of `count` layers that lie evenly in memory, as those of a stacked tensor
/// {count, ...} do. Layer i = 0, 1, ... has the name `pattern` with i in place of its one "%d", the
/// shape of one layer, and begins i * stride elements behind layer 0, whose value and gradient are
/// given: each of a type of its own, null data of the gradient: absent. Throws
/// std::invalid_argument that names pattern and field: another pattern, a bad shape, a count that
/// is not in [1, 2^20], row-major layers that overlap, or 2^40 elements and more.
std::vector<Parameter> stacked(std::string_view pattern, const std::vector<std::int64_t>& shape,
                               const Tensor& value, const Tensor& gradient, std::int64_t stride,
                               std::int64_t count);

class ValueMemory;

/// A group while it is trained. `rates`, `schedules` and `base_rates` may be assigned at any time
/// between steps, the same on all ranks.
class Group {
 public:
  /// A copy's rates would change nothing: auto& group = optimizer.group(0).
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Rates rates;
  /// Before every step each of them sets its rate to its value in the step that comes, counted from
  /// 0 by the steps that the optimizer has taken: a skipped one is not counted, and the next one
  /// has the same rates. A call of step() with one gradient alone, as in a hook of the backward
  /// pass, counts as any other. It starts from its rate in `base_rates`. The caller leaves the rate
  /// alone: another value is an std::invalid_argument of the step that names group and rate, until
  /// its base or schedule is another. The caller gives schedules again before a load; base rates
  /// are part of the state.
  RateSchedules schedules;
  /// The rates that the group was made with; saved and loaded where it has schedules.
  Rates base_rates;

  const Recipe& recipe() const { return recipe_; }
  std::span<const Parameter> parameters() const { return parameters_; }
  /// Index of a parameter. Throws std::out_of_range where there is none of the name.
  std::size_t find(std::string_view name) const;
  /// No other group of the optimizer has it: the label that the group was made with, or "group 3";
  /// with a number behind it where an earlier group has that: "vectors 2".
  const std::string& label() const { return label_; }

  /// Gives one parameter a rate of its own, from the next step on, whatever `rates` says:
  /// set_rate("bias", &Rates::weight_decay, 0). It is validated as `rates` are and merges as they
  /// do; it is saved, too. Throws std::out_of_range where the group has no such parameter.
  void set_rate(std::size_t j, RateField rate, double value);
  void set_rate(std::string_view name, RateField rate, double value);
  /// The parameter follows `rates` again.
  void clear_rate(std::size_t j, RateField rate);
  void clear_rate(std::string_view name, RateField rate);
  /// The rates of one parameter. Throws std::out_of_range for j.
  Rates rates_of(std::size_t j) const;
  /// Those of the others: `rates`, with the peak of the construction where they have none.
  Rates common_rates() const;
  /// What set_rate() set.
  std::span<const OwnRate> own_rates() const { return own_rates_; }
  /// Replaces `rates` and all that set_rate() set, as a load does. Throws std::out_of_range, and
  /// std::invalid_argument for an unknown rate or the same one twice, with nothing changed.
  void replace_rates(GroupRates all);

  /// Sets the address of the j-th parameter's gradient from the next step on; null: absent.
  /// Type and strides stay. Throws std::out_of_range for j, and std::invalid_argument where the
  /// memory is not aligned to its elements or overlaps a value.
  void set_gradient(std::size_t j, void* data);
  /// The same, where the type is known: throws std::invalid_argument, too, if it is not that of the
  /// registration.
  template <typename Number>
  requires std::constructible_from<Tensor, Number*>
  void set_gradient(std::size_t j, Number* data) { set_gradient_of_type(j, Tensor(data)); }
  /// The same, where type and strides are known: throws std::invalid_argument, too, if they are not
  /// those that the parameter was registered with.
  void set_gradient(std::size_t j, const Tensor& gradient);
  /// The same for the parameter of this name. Throws std::out_of_range where the group has none.
  void set_gradient(std::string_view name, const Tensor& gradient);

  /// "group 0", "group 0 'vectors'": the group in errors.
  const std::string& title() const { return title_; }

 private:
  friend class Optimizer;
  Group(ParameterGroup group, int index, std::string label, const ValueMemory& values);
  void require(std::size_t j) const;
  void set_gradient_of_type(std::size_t j, const Tensor& gradient);

  Recipe recipe_;
  std::vector<Parameter> parameters_;
  std::vector<OwnRate> own_rates_;
  std::optional<double> first_peak_;  ///< peak_learning_rate where it is read, unless it is set
  std::string label_;
  std::string title_;
  int index_;
  const ValueMemory& values_;
};

/// Response of a step to a gradient that is not finite.
enum class NonFinite : std::uint8_t {
  skip,   ///< the step is skipped, as by torch.amp's GradScaler; see skipped_in_a_row
  error,  ///< nothing changes; NumericalError
  /// The step is taken. A block whose direction is not finite takes none: see
  /// StepResult::non_finite_direction(). But where a direction is made element by element, as that
  /// of a grafting before the first refresh, and is neither scaled nor transformed, the elements
  /// with finite results move, and the block is not named.
  ignore
};

/// A block of a parameter's direction P, which its owner computes: see
/// OptimizerOptions::transform_direction.
struct DirectionBlock {
  const Parameter& parameter;
  /// Of the block, in the parameter's shape with small dimensions merged: see Blocking.
  const Box& box;
  Type type;   ///< float32 or float64: Recipe::arithmetic
  void* data;  ///< [backend] in and out: its elements, in row-major order
  std::int64_t elements;
};

struct OptimizerOptions {
  NonFinite non_finite = NonFinite::skip;
  int skipped_in_a_row = 20;  ///< consecutive skipped steps after which step() throws; >= 1
  GradientOptions gradients = {};
  bool merge_groups = true;  ///< off: one virtual group per group; results are the same bits
  /// There is no group at construction; add_group() adds them before the first step.
  bool starts_empty = false;
  /// Adds one small collective before a step writes: an error on any rank, or a difference between
  /// ranks, then changes nothing on any rank.
  bool agree_before_commit = false;
  /// The norms of all ranks' values are compared in the first step after construction, add_group()
  /// and a load, and in every so many steps; 0: in those alone. Such a step waits for one pass over
  /// them.
  int compare_values_every = 0;
  /// [backend] A factor on the learning rates of all groups that each step reads when it runs, for
  /// rates that a device computes, replays included. Borrowed; equal on all ranks, which is not
  /// compared. With 1 no bit changes; where the result is not finite, values stay. Not with
  /// WeightDecay::plain and corrected or an averaging of iterates, which compute with the learning
  /// rate on the host. Null: none.
  const double* learning_rate_factor = nullptr;
  /// Changes directions where they are, after grafting, before UpdateScaling, decay, momentum and
  /// the learning rate: called in every step for every block with a gradient that this rank owns,
  /// on the host, where a device's work is to be queued on the backend's stream. On a device also
  /// in steps that turn out to be skipped, where results are not used, and for replays only in the
  /// capture. What it leaves must not depend on the rank. A block with an element that is not
  /// finite then takes no step: see Statistics. It may read rates, recipes, the number of steps and
  /// the latest result, which are as before the step; a call of the optimizer that steps, loads,
  /// saves or evaluates throws std::logic_error. An exception is an error of the step, on all
  /// ranks, and disables the optimizer until a state is loaded: some blocks have taken the gradient
  /// in. Directions are in memory; not part of the state.
  std::function<void(const DirectionBlock&)> transform_direction = {};
  /// Folder, made if it is missing, in which this rank writes rank-R.json, in place of an earlier
  /// one: a trace of every phase of every step for chrome://tracing or ui.perfetto.dev, with a
  /// track for each phase of each virtual group. Times are those of the backend's queue, of
  /// replayed steps, too, from the end of the constructor on, which is the same moment on all ranks
  /// but for the latency of a collective. Each step is written when its outcome is known, with
  /// about 100 bytes for a phase. May differ between ranks; empty: no trace. The constructor throws
  /// std::invalid_argument if the file cannot be written, or another optimizer writes it; later,
  /// the trace just ends, and Optimizer::describe() says why.
  std::string trace = {};
  /// Measures the phases on a device for Optimizer::describe() without a trace, which measures
  /// them, too: two events around each, for every chunk of directions. On the CPU they are always
  /// measured. May differ between ranks.
  bool time_phases = false;
  /// Bytes of directions, and of scratch memory of the same length that a device needs for them,
  /// that are in memory at a time: those of a chunk, which has as many blocks of a virtual group as
  /// fit, at least one. >= 0. Empty: a seventh of this rank's state, at least 1 MiB; most models
  /// then have a workspace of at most a quarter of their state beside the exchange buffer, and more
  /// layers make larger chunks, not more of them. Roots are refreshed for all chunks together, in
  /// the same memory, and results are the same bits. Launches come once for every chunk, so many
  /// small ones leave threads and devices idle. Elementwise kinds without grafting, and on the host
  /// kinds with roots and Spectral without grafting by NewtonSchulz of at most its default
  /// iterations, have no directions in memory unless their updates are scaled or transformed. May
  /// differ between ranks.
  std::optional<std::int64_t> direction_bytes = std::nullopt;
};

}  // namespace shampoo
