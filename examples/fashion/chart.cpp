// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "examples/fashion/canvas.h"

namespace fashion {

namespace {

constexpr int width = 2000, height = 1240;
constexpr double left = 170, right = width - 70.0, top = 210, bottom = height - 140.0;

constexpr Color ink{0.13, 0.15, 0.19};
constexpr Color quiet{0.42, 0.45, 0.50};
constexpr Color grid{0.90, 0.91, 0.93};

/// In the order of methods(), then any other.
constexpr std::array palette = {
    Color{0.04, 0.42, 0.60}, Color{0.76, 0.12, 0.28}, Color{0.55, 0.35, 0.08},
    Color{0.13, 0.55, 0.33}, Color{0.88, 0.44, 0.16}, Color{0.45, 0.25, 0.65},
    Color{0.40, 0.42, 0.46}, Color{0.10, 0.60, 0.62}, Color{0.80, 0.35, 0.65}};

Color color(const Method& method) {
  const auto place = std::ranges::find(methods(), method.key, &Method::key) - methods().begin();
  return palette[static_cast<std::size_t>(place) % palette.size()];
}

/// Where steps and losses lie on the canvas; losses on a logarithmic scale.
struct Axes {
  double steps;
  double low, high;

  Point at(double step, double loss) const {
    const double up = std::log(loss / low) / std::log(high / low);
    return {left + (right - left) * step / steps,
            bottom - (bottom - top) * std::clamp(up, 0.0, 1.0)};
  }
};

bool drawable(double loss) { return std::isfinite(loss) && loss > 0; }

/// A running mean, Gaussian weights, of the logarithms: what the eye expects on this scale.
std::vector<double> smoothed(const std::vector<double>& losses) {
  constexpr int reach = 45;
  std::vector<double> result;
  const int count = static_cast<int>(losses.size());
  for (int i = 0; i < count; ++i) {
    // A narrow window at the beginning, where the losses fall steeply.
    const int before = std::min(reach, i / 2);
    const int after = std::min(before, count - 1 - i);
    const double deviation = std::max(1.0, before / 3.0);
    double sum = 0, weights = 0;
    for (int j = i - before; j <= i + after; ++j) {
      if (!drawable(losses[j])) continue;
      const double weight = std::exp(-0.5 * std::pow((j - i) / deviation, 2));
      sum += weight * std::log(losses[j]);
      weights += weight;
    }
    result.push_back(weights > 0 ? std::exp(sum / weights) : NAN);
  }
  return result;
}

/// Losses from a little under the lowest curve up to the first batches.
Axes axes(std::span<const Outcome> outcomes) {
  Axes axes{1, 1, 2.5};
  for (const Outcome& outcome : outcomes) {
    axes.steps = std::max(axes.steps, static_cast<double>(outcome.losses.size()));
    for (const double loss : smoothed(outcome.losses))
      if (drawable(loss)) {
        axes.low = std::min(axes.low, 0.6 * loss);
        axes.high = std::max(axes.high, loss);
      }
  }
  return axes;
}

void draw_axes(Canvas& canvas, const Axes& axes, int steps_per_epoch) {
  for (const double decade : {1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1})
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double loss = digit * decade;
      if (loss < axes.low || loss > axes.high) continue;
      char label[32];
      std::snprintf(label, sizeof label, "%g", loss);
      const double y = axes.at(0, loss).y;
      canvas.line({left, y}, {right, y}, 2, grid);
      canvas.text({left - 22, y + 11}, label, {.size = 32, .color = quiet, .align = Align::right});
    }
  for (int epoch = 0; epoch * steps_per_epoch <= axes.steps; ++epoch) {
    const double x = axes.at(epoch * steps_per_epoch, 1).x;
    canvas.line({x, bottom}, {x, bottom + 12}, 2, quiet);
    canvas.text({x, bottom + 52}, std::to_string(epoch),
                {.size = 32, .color = quiet, .align = Align::center});
  }
  canvas.line({left, bottom}, {right, bottom}, 2, quiet);
  canvas.text({(left + right) / 2, bottom + 108}, "epochs",
              {.size = 34, .color = ink, .align = Align::center});
  canvas.text({60, (top + bottom) / 2}, "training loss",
              {.size = 34, .color = ink, .align = Align::center, .upwards = true});
}

void draw_points(Canvas& canvas, const Axes& axes, const Outcome& outcome) {
  for (std::size_t step = 0; step < outcome.losses.size(); ++step)
    if (drawable(outcome.losses[step]) && outcome.losses[step] >= axes.low)
      canvas.disc(axes.at(static_cast<double>(step), outcome.losses[step]), 3.6,
                  color(*outcome.attempt.method).faded(0.22));
}

void draw_curve(Canvas& canvas, const Axes& axes, const Outcome& outcome) {
  const std::vector<double> losses = smoothed(outcome.losses);
  std::vector<Point> points;
  for (std::size_t step = 0; step < losses.size(); ++step)
    if (drawable(losses[step])) points.push_back(axes.at(static_cast<double>(step), losses[step]));
  canvas.curve(points, 12, {1, 1, 1, 0.85});
  canvas.curve(points, 6.5, color(*outcome.attempt.method));
}

void draw_legend(Canvas& canvas, std::span<const Outcome> outcomes) {
  double y = top + 50;
  for (const Outcome& outcome : outcomes) {
    const Color own = color(*outcome.attempt.method);
    char accuracy[64];
    std::snprintf(accuracy, sizeof accuracy, "%.2f %% test accuracy",
                  outcome.epochs.back().accuracy);
    canvas.line({right - 820, y - 12}, {right - 730, y - 12}, 8, own);
    canvas.text({right - 700, y}, outcome.attempt.method->name,
                {.size = 38, .color = own, .bold = true});
    canvas.text({right - 20, y}, accuracy, {.size = 36, .color = ink, .align = Align::right});
    y += 66;
  }
}

}  // namespace

void draw_losses(std::span<const Outcome> outcomes, const std::filesystem::path& file) {
  Canvas canvas(width, height);
  const Axes scale = axes(outcomes);
  canvas.text({left, 88}, "Fashion-MNIST, a small convolutional network",
              {.size = 50, .color = ink, .bold = true});
  canvas.text({left, 144}, "Loss of each batch of 256 images (dots) and its running mean (lines)",
              {.size = 34, .color = quiet});
  draw_axes(canvas, scale, outcomes.front().steps_per_epoch);
  for (const Outcome& outcome : outcomes) draw_points(canvas, scale, outcome);
  for (const Outcome& outcome : outcomes) draw_curve(canvas, scale, outcome);
  draw_legend(canvas, outcomes);
  canvas.write_png(file);
}

}  // namespace fashion
