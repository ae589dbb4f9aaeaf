// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shampoo/grouping/box.h"
#include "shampoo/kernels/types.h"
#include "shampoo/rates.h"
#include "shampoo/recipe.h"

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

/// One tensor of the caller's model. Borrowed: value and gradient must outlive the optimizer.
/// step() writes the value and never the gradient. Group::set_gradient() changes where it lies.
/// Values are equal on all ranks, see OptimizerOptions::compare_values_every.
struct Parameter {
  std::string name = {};  ///< unique among all parameters of the optimizer, not empty
  std::vector<std::int64_t> shape = {};  ///< global shape; empty: a scalar
  /// Reserved: only the whole tensor is accepted, std::invalid_argument otherwise.
  std::optional<Box> box = std::nullopt;
  Tensor value = {};     ///< value of any type; 16-bit types have a float32 master
  Tensor gradient = {};  ///< own type and strides; null data: absent, as grad = None
};

/// Parameters with one set of rates and one recipe.
struct ParameterGroup {
  std::vector<Parameter> parameters = {};  ///< at least one parameter
  Rates rates = {};
  Recipe recipe = {};
};

class ValueMemory;

/// A group while it is trained. `rates` may be assigned at any time between steps.
class Group {
 public:
  Rates rates;

  const Recipe& recipe() const { return recipe_; }
  std::span<const Parameter> parameters() const { return parameters_; }

  /// Sets the address of the j-th parameter's gradient from the next step on; null: absent.
  /// Type and strides stay. Throws std::out_of_range for j, and std::invalid_argument where the
  /// memory is not aligned to its elements or overlaps a value.
  void set_gradient(std::size_t j, void* data);
  /// The same, where type and strides are known: throws std::invalid_argument, too, if they are not
  /// those that the parameter was registered with.
  void set_gradient(std::size_t j, const Tensor& gradient);
  /// The same for the parameter of this name. Throws std::out_of_range where the group has none.
  void set_gradient(std::string_view name, const Tensor& gradient);

 private:
  friend class Optimizer;
  Group(ParameterGroup group, int index, const ValueMemory& values);

  Recipe recipe_;
  std::vector<Parameter> parameters_;
  int index_;
  const ValueMemory& values_;
};

/// Response of a step to a gradient that is not finite.
enum class NonFinite : std::uint8_t {
  skip,   ///< the step is skipped, as by torch.amp's GradScaler; see skipped_in_a_row
  error,  ///< nothing changes; NumericalError
  ignore  ///< the step is taken
};

struct OptimizerOptions {
  NonFinite non_finite = NonFinite::skip;
  int skipped_in_a_row = 20;  ///< consecutive skipped steps after which step() throws; >= 1
  bool merge_groups = true;   ///< off: one virtual group per group; results are the same bits
  /// Adds one small collective before a step writes: an error on any rank, or a difference between
  /// ranks, then changes nothing on any rank.
  bool agree_before_commit = false;
  /// The values of all ranks are compared in the first step after construction, add_group() and a
  /// load, and in every so many steps; 0: in those alone. Such a step waits for one pass over them.
  int compare_values_every = 0;
  /// Folder, made if it is missing, in which this rank writes rank-R.json, in place of an earlier
  /// one: a trace of every phase of every step for chrome://tracing or ui.perfetto.dev, with a
  /// track for each phase of each virtual group. Times are those of the backend's queue, of
  /// replayed steps, too, from the end of the constructor on, which is the same moment on all ranks
  /// but for the latency of a collective. Each step is written when its outcome is known, with
  /// about 100 bytes for a phase. May differ between ranks; empty: no trace. The constructor throws
  /// std::invalid_argument if the file cannot be written; later, the trace just ends, and
  /// Optimizer::describe() says why.
  std::string trace = {};
  /// Measures the phases on a device for Optimizer::describe() without a trace, which measures
  /// them, too: two events around each, for every chunk of directions. On the CPU they are always
  /// measured. May differ between ranks.
  bool time_phases = false;
  /// Bytes of directions, and of scratch memory of the same length that a device needs for them,
  /// that are in memory at a time: those of a chunk, which has as many blocks of a virtual group as
  /// fit, at least one. >= 0. Empty: a twelfth of this rank's state, at least 1 MiB; most models
  /// then have a workspace of at most a quarter of their state beside the exchange buffer, and more
  /// layers make larger chunks, not more of them. Roots are refreshed for all chunks together, and
  /// results are the same bits. Launches come once for every chunk, so many small ones leave
  /// threads and devices idle. Elementwise kinds without grafting have no directions in memory. May
  /// differ between ranks.
  std::optional<std::int64_t> direction_bytes = std::nullopt;
};

}  // namespace shampoo
