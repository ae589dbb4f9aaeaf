// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "shampoo/shampoo.h"
#include "shampoo/torch_state.h"

/// Tensors of LibTorch as parameters. Compiled by programs, with their torch; the library does not
/// know it.
namespace shampoo::libtorch {

/// Throws std::invalid_argument, naming `what`, for a type that no parameter has.
inline Type type_of(at::ScalarType type, const std::string& what) {
  switch (type) {
    case at::kFloat:
      return Type::float32;
    case at::kDouble:
      return Type::float64;
    case at::kBFloat16:
      return Type::bfloat16;
    case at::kHalf:
      return Type::float16;
    default:
      throw std::invalid_argument(what +
                                  ": dtype must be float32, float64, bfloat16 or float16, got " +
                                  at::toString(type));
  }
}

/// The elements of a dense tensor where they lie. Borrowed. Throws as type_of().
inline Tensor view_of(const at::Tensor& tensor, const std::string& what) {
  return {tensor.data_ptr(), type_of(tensor.scalar_type(), what), tensor.strides().vec()};
}

/// A parameter group of tensors by name. Tensors are held, and so live as long as the optimizer.
struct TensorGroup {
  std::vector<std::pair<std::string, at::Tensor>> tensors = {};
  Rates rates = {};
  Recipe recipe = {};
  RateSchedules schedules = {};
  std::string label = {};
};

/// The parameters of a module, by name, each in the group that group_of(name, tensor) names by its
/// index; one with a negative index, that needs no gradient, or that is another one (tied weights),
/// is left out. Throws std::invalid_argument for an index that there is not.
inline std::vector<TensorGroup> groups_by(
    const torch::nn::Module& module, std::vector<TensorGroup> groups,
    const std::function<int(const std::string& name, const at::Tensor& tensor)>& group_of) {
  std::set<const void*> known;
  for (const auto& entry : module.named_parameters()) {
    if (!entry.value().requires_grad()) continue;
    if (!known.insert(entry.value().unsafeGetTensorImpl()).second) continue;
    const int index = group_of(entry.key(), entry.value());
    if (index < 0) continue;
    if (index >= static_cast<int>(groups.size()))
      throw std::invalid_argument("groups_by: parameter '" + entry.key() + "': group " +
                                  std::to_string(index) + " is none of the " +
                                  std::to_string(groups.size()) + ", counted from 0");
    groups[static_cast<std::size_t>(index)].tensors.emplace_back(entry.key(), entry.value());
  }
  return groups;
}

/// An Optimizer of torch's tensors, with the habits of torch::optim. Backend and communicator are
/// borrowed and must outlive it; the backend of CUDA tensors works on the stream that it was made
/// with, which should be torch's current one. Calls are collective where Optimizer's are.
class TorchOptimizer {
 public:
  /// Throws std::invalid_argument, naming the tensor and on several ranks the rank, on all of them,
  /// where one is undefined, sparse, no leaf that requires a gradient, of another type than
  /// parameters have, or not in the backend's memory; and as Optimizer's constructor. Collective.
  TorchOptimizer(Backend& backend, Communicator& communicator, std::vector<TensorGroup> groups,
                 const OptimizerOptions& options = {})
      : communicator_(&communicator),
        stream_{backend.stream()},
        device_(backend.device() < 0 ? "cpu" : "cuda:" + std::to_string(backend.device())),
        groups_(std::move(groups)),
        optimizer_(backend, communicator, agreed_parameters(groups_), options) {}

  /// Adds a group, as torch's add_param_group(). Throws as the constructor, with nothing changed.
  /// Collective.
  void add_group(TensorGroup group) {
    std::vector<TensorGroup> added{std::move(group)};
    groups_.reserve(groups_.size() + 1);
    std::vector<ParameterGroup> parameters = agreed_parameters(added);
    optimizer_.add_groups(std::move(parameters));
    groups_.push_back(std::move(added.front()));
  }

  /// Values of all ranks <- those of `root`; averages of them start again, so before a load.
  /// Collective.
  void broadcast(int root = 0) {
    const torch::NoGradGuard guard;
    for_each([&](const std::string&, const at::Tensor& value) {
      at::Tensor dense = value.detach().contiguous();
      communicator_
          ->broadcast(dense.data_ptr(), static_cast<std::int64_t>(dense.nbytes()), root,
                      {stream_, std::make_shared<at::Tensor>(dense)})
          .wait();
      if (dense.data_ptr() != value.data_ptr()) value.detach().copy_(dense);
      torch::autograd::impl::bump_version(value);
    });
    optimizer_.read_values();
  }

  /// Gradients <- their mean over ranks. One that is undefined on some ranks counts as zeros there;
  /// one that is undefined on all of them stays so. Collective; waits. Throws what step() throws of
  /// gradients, on all ranks.
  void average() {
    std::string fault;
    try {
      lend_gradients();
    } catch (const std::exception& error) {
      fault = error.what();
    }
    agree(fault);
    optimizer_.average_gradients([this](const Parameter& absent) {
      void* zeros = nullptr;
      for_each([&](const std::string& name, const at::Tensor& value) {
        if (name != absent.name) return;
        value.mutable_grad() = at::zeros_like(value);
        zeros = value.grad().data_ptr();
      });
      return zeros;
    });
  }

  /// Takes a step with the tensors' present gradients; an undefined one is absent. A gradient of
  /// another layout or type than its value's is brought into that first. Throws on all ranks,
  /// naming the tensor, for a sparse gradient, one of another shape or device, and for a value
  /// whose memory, type, shape or strides are no longer what they were at construction; and as
  /// Optimizer::step(). As after torch's optimizers, a backward pass that needs a value of before
  /// the step, taken or skipped, throws.
  StepResult step() {
    const auto lends = optimizer_.on_step({.before = [this](Optimizer&) {
      lend_gradients();
      for_each([](const std::string&, const at::Tensor& value) {
        if (value.grad().defined()) torch::autograd::impl::bump_version(value);
      });
    }});
    const StepResult result = optimizer_.step();
    unscaled_ = false;
    return result;
  }

  /// Optimizer::unscale() of the tensors' present gradients.
  void unscale(bool allow_float16 = false) {
    lend_gradients();
    optimizer_.unscale(allow_float16);
    unscaled_ = true;
  }

  /// Evaluates the closure once, with gradients enabled, takes a step, and returns the loss.
  at::Tensor step(const std::function<at::Tensor()>& closure) {
    at::Tensor loss;
    {
      const torch::AutoGradMode mode(true);
      loss = closure();
    }
    step();
    return loss;
  }

  /// Drops gradients, or makes those that there are zero. Those that come next have the loss scale.
  void zero_grad(bool set_to_none = true) {
    const torch::NoGradGuard guard;
    const bool unscaled = std::exchange(unscaled_, false);
    for (std::size_t g = 0; (set_to_none || unscaled) && g < groups_.size(); ++g)
      for (std::size_t j = 0; j < groups_[g].tensors.size(); ++j) group(g).set_gradient(j, nullptr);
    if (unscaled) optimizer_.zero_gradients();  // of none: their memory may be gone
    for_each([&](const std::string&, const at::Tensor& value) {
      at::Tensor& gradient = value.mutable_grad();
      if (!gradient.defined()) return;
      if (set_to_none) return gradient.reset();
      // A view, as into a bucket, cannot be detached.
      if (gradient.grad_fn()) gradient.detach_();
      gradient.requires_grad_(false).zero_();
    });
  }

  /// Live: read at every step.
  Rates& rates(int index) { return optimizer_.group(index).rates; }
  /// For save(), load(), describe() and all the rest that needs no gradients: those that it knows
  /// are of the last step(), unscale() or average(). Autograd does not see what it changes.
  Optimizer& native() { return optimizer_; }

 private:
  template <typename Body>
  void for_each(const Body& body) {
    for (const TensorGroup& group : groups_)
      for (const auto& [name, value] : group.tensors) body(name, value);
  }

  Group& group(std::size_t index) { return optimizer_.group(static_cast<int>(index)); }

  /// A dense gradient of the value, without memory.
  static at::Tensor layout_of(const at::Tensor& value) {
    return at::empty_like(value, value.options().device(at::kMeta));
  }

  /// All ranks throw the fault of the first one that has some. Collective; waits.
  void agree(const std::string& fault) {
    constexpr std::int64_t longest = 1024;
    const int ranks = communicator_->size();
    at::Tensor texts = at::zeros({ranks, longest}, at::kByte);
    fault.copy(static_cast<char*>(texts[communicator_->rank()].data_ptr()), longest - 1);
    texts = texts.to(device_);
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), longest);
    const BufferLease lease{stream_, std::make_shared<at::Tensor>(texts)};
    communicator_->all_gather(texts.data_ptr(), counts, lease).wait();
    texts = texts.cpu();
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string text = static_cast<const char*>(texts[rank].data_ptr());
      const std::string who = ranks == 1 ? "" : "rank " + std::to_string(rank) + ": ";
      if (!text.empty()) throw std::invalid_argument(who + text);
    }
  }

  std::vector<ParameterGroup> agreed_parameters(const std::vector<TensorGroup>& groups) {
    std::vector<ParameterGroup> made;
    std::string fault;
    try {
      for (const TensorGroup& group : groups) made.push_back(parameter_group(group));
    } catch (const std::exception& error) {
      fault = error.what();
    }
    agree(fault);
    return made;
  }

  ParameterGroup parameter_group(const TensorGroup& of) const {
    ParameterGroup made{
        .rates = of.rates, .recipe = of.recipe, .schedules = of.schedules, .label = of.label};
    for (const auto& [name, value] : of.tensors) {
      check_value(name, value);
      const Tensor view = view_of(value, "tensor '" + name + "'");
      made.parameters.push_back(
          {.name = name,
           .shape = value.sizes().vec(),
           .value = view,
           .gradient = {nullptr, view.type, layout_of(value).strides().vec()}});
    }
    return made;
  }

  void check_value(const std::string& name, const at::Tensor& value) const {
    const auto require = [&](bool holds, const std::string& what) {
      if (!holds) throw std::invalid_argument("tensor '" + name + "': must " + what);
    };
    require(value.defined(), "be defined");
    require(value.layout() == at::kStrided, "be dense, not sparse");
    require(!value.is_neg(), "be no negative view, which resolve_neg() copies");
    require(value.is_leaf() && value.requires_grad(), "be a leaf that requires a gradient");
    require(value.device() == device_, "be in the backend's memory, which is " + device_.str());
  }

  /// The optimizer's gradients <- the tensors'.
  void lend_gradients() {
    if (optimizer_.group_count() != static_cast<int>(groups_.size()))
      throw std::logic_error(
          "native().add_group(): its tensors' gradients would not be read; TorchOptimizer has an "
          "add_group() of its own");
    arrange_gradients();
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t j = 0; j < groups_[g].tensors.size(); ++j) {
        const auto& [name, value] = groups_[g].tensors[j];
        const Parameter& registered = group(g).parameters()[j];
        const Tensor now = view_of(value, "tensor '" + name + "'");
        if (now.data != registered.value.data || now.type != registered.value.type ||
            now.strides != registered.value.strides || value.sizes() != registered.shape ||
            value.is_neg())
          throw std::invalid_argument(
              "tensor '" + name +
              "': its value has moved, or changed its type or shape, as by to() or set_data(), "
              "since the optimizer was made; do that before, or make another optimizer");
        group(g).set_gradient(j, value.grad().defined() ? value.grad().data_ptr() : nullptr);
      }
  }

  /// Gradients of other layouts or types than their values' are replaced.
  void arrange_gradients() {
    const torch::NoGradGuard guard;
    for_each([&](const std::string& name, const at::Tensor& value) {
      at::Tensor& gradient = value.mutable_grad();
      if (!gradient.defined()) return;
      if (gradient.layout() != at::kStrided)
        throw std::invalid_argument("tensor '" + name +
                                    "': its gradient must be dense, not sparse, as of an embedding "
                                    "with sparse(false)");
      if (gradient.sizes() != value.sizes() || gradient.device() != value.device())
        throw std::invalid_argument(c10::str("tensor '", name, "': its gradient must be of shape ",
                                             value.sizes(), " on ", value.device(), ", not ",
                                             gradient.sizes(), " on ", gradient.device()));
      if (gradient.scalar_type() == value.scalar_type() &&
          gradient.strides() == layout_of(value).strides() && !gradient.is_neg())
        return;
      gradient = at::empty_like(value).copy_(gradient);
    });
  }

  Communicator* communicator_;
  StreamRef stream_;
  at::Device device_;  ///< whose memory is the backend's
  std::vector<TensorGroup> groups_;
  Optimizer optimizer_;
  bool unscaled_ = false;  ///< since the last step
};

}  // namespace shampoo::libtorch
