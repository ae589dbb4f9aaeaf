// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <variant>

/// What happens to gradients before they enter the step, in the order of GradientOptions. Nothing
/// of it is written into the caller's gradients, waits, or takes another pass over them, and steps
/// that are replayed take it, too.
namespace shampoo {

struct NoLossScale {
  static constexpr std::string_view name = "none";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const NoLossScale&) const = default;
};
/// Gradients are those of the loss times `scale`, a power of two in [2^-32, 2^32].
struct FixedLossScale {
  static constexpr std::string_view name = "fixed";
  double scale = 65536;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("scale", self.scale);
  }
  bool operator==(const FixedLossScale&) const = default;
};
/// Gradients are those of the loss times Optimizer::loss_scale(), which adapts itself as that of
/// torch.amp.GradScaler. A step with a gradient that is not finite, an overflow, is skipped
/// whatever NonFinite says, and the scale is multiplied by `backoff`; it counts for
/// OptimizerOptions::skipped_in_a_row, and is an error by NonFinite::error, only at the floor.
/// After `interval` steps in a row without an overflow the scale is multiplied by `growth`. The
/// scale is part of the state that is saved and loaded, within the floor and ceiling of the
/// optimizer that loads it.
struct DynamicLossScale {
  static constexpr std::string_view name = "dynamic";
  double initial = 65536;   ///< a power of two in [floor, ceiling]
  double growth = 2;        ///< a power of two in [1, 2^16]
  double backoff = 0.5;     ///< a power of two in [2^-16, 1)
  int interval = 2000;      ///< >= 1
  double floor = 0x1p-16;   ///< a power of two in [2^-32, ceiling]
  double ceiling = 0x1p24;  ///< a power of two in [floor, 2^32]
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("initial", self.initial);
    visit("growth", self.growth);
    visit("backoff", self.backoff);
    visit("interval", self.interval);
    visit("floor", self.floor);
    visit("ceiling", self.ceiling);
  }
  bool operator==(const DynamicLossScale&) const = default;
};
using LossScaling = std::variant<NoLossScale, FixedLossScale, DynamicLossScale>;

struct NoClipping {
  static constexpr std::string_view name = "none";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const NoClipping&) const = default;
};
/// G <- min(1, max_norm / (|G| + 1e-6)) G, with the norm of all gradients of all groups together,
/// as torch.nn.utils.clip_grad_norm_. Scaled gradients whose norm is above 2^126 max_norm count as
/// 0 in float32 arithmetic, which has no factor so small.
struct ClipGlobalNorm {
  static constexpr std::string_view name = "global_norm";
  double max_norm = 1;  ///< in (0, inf)
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("max_norm", self.max_norm);
  }
  bool operator==(const ClipGlobalNorm&) const = default;
};
/// The same for every parameter by itself.
struct ClipParameterNorm {
  static constexpr std::string_view name = "parameter_norm";
  double max_norm = 1;  ///< in (0, inf)
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("max_norm", self.max_norm);
  }
  bool operator==(const ClipParameterNorm&) const = default;
};
/// Every element is clipped to [-limit, limit], as torch.nn.utils.clip_grad_value_.
struct ClipValue {
  static constexpr std::string_view name = "value";
  double limit = 1;  ///< in (0, inf)
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("limit", self.limit);
  }
  bool operator==(const ClipValue&) const = default;
};
using Clipping = std::variant<NoClipping, ClipGlobalNorm, ClipParameterNorm, ClipValue>;

/// Skips a step whose gradient norm exceeds mean + deviations sigma of the last `window` finite
/// norms, with the sample's sigma, once there are so many and they are not all equal. Norms of
/// skipped steps enter the window, too, so that a lasting change is soon taken as usual. The window
/// is part of the state that is saved and loaded: of another length, its newest norms.
struct SpikeGuard {
  static constexpr std::string_view name = "spike_guard";
  double deviations = 6;  ///< in (0, inf)
  int window = 0;         ///< 0: no guard; otherwise in [2, 1024]
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("deviations", self.deviations);
    visit("window", self.window);
  }
  bool operator==(const SpikeGuard&) const = default;
};

struct GradientOptions {
  static constexpr std::string_view name = "gradients";
  LossScaling loss_scaling = NoLossScale{};  ///< divided out, exactly
  SpikeGuard spike_guard = {};
  Clipping clipping = NoClipping{};
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("loss_scaling", self.loss_scaling);
    visit("spike_guard", self.spike_guard);
    visit("clipping", self.clipping);
  }
  bool operator==(const GradientOptions&) const = default;
};

}  // namespace shampoo
