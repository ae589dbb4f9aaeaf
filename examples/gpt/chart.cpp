// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "examples/fashion/canvas.h"

namespace gpt {

namespace {

using namespace fashion;

constexpr int width = 2000, height = 1000;
constexpr double top = 190, bottom = height - 130.0, gap = 130, left = 150;
constexpr double panel = (width - left - 60 - gap) / 2;
constexpr Color ink{0.13, 0.15, 0.19}, quiet{0.42, 0.45, 0.50}, grid{0.90, 0.91, 0.93};

/// In the order of methods().
constexpr std::array palette = {Color{0.04, 0.42, 0.60}, Color{0.76, 0.12, 0.28},
                                Color{0.13, 0.55, 0.33}, Color{0.88, 0.44, 0.16}};

Color color(const Result& result) {
  return palette[static_cast<std::size_t>(result.method - methods().data()) % palette.size()];
}

/// 1, 2 or 5 times a power of ten: about five of them in the range.
double distance(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 4)));
  for (const double digit : {5.0, 2.0})
    if (digit * power <= range / 4) return digit * power;
  return power;
}

std::string label(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

struct Panel {
  double left, most, low, high;

  Point at(double x, double loss) const {
    return {left + panel * x / most,
            bottom - (bottom - top) * std::clamp((loss - low) / (high - low), 0.0, 1.0)};
  }

  void draw_axes(Canvas& canvas, const std::string& name) const {
    const double up = distance(high - low), right = distance(most);
    for (double loss = std::ceil(low / up) * up; loss <= high; loss += up) {
      canvas.line(at(0, loss), at(most, loss), 2, grid);
      canvas.text({left - 16, at(0, loss).y + 10}, label(std::round(loss * 1e6) / 1e6),
                  {.size = 28, .color = quiet, .align = Align::right});
    }
    for (double x = 0; x <= most; x += right)
      canvas.text({at(x, low).x, bottom + 44}, label(x),
                  {.size = 28, .color = quiet, .align = Align::center});
    canvas.text({left + panel / 2, bottom + 96}, name,
                {.size = 32, .color = ink, .align = Align::center});
  }
};

std::vector<Result> best_of_each(std::span<const Result> results) {
  std::vector<Result> best;
  for (const Result& result : results) {
    const auto same = std::ranges::find(best, result.method, &Result::method);
    if (same == best.end())
      best.push_back(result);
    else if (result.loss() < same->loss())
      *same = result;
  }
  return best;
}

}  // namespace

void draw_losses(std::span<const Result> results, double target,
                 const std::filesystem::path& file) {
  const std::vector<Result> best = best_of_each(results);
  Panel steps{left, 1, target, 3}, seconds{left + panel + gap, 1e-3, target, 3};
  for (const Result& result : best) {
    steps.most = std::max(steps.most, static_cast<double>(result.curve.back().step));
    seconds.most = std::max(seconds.most, result.curve.back().seconds);
    steps.low = seconds.low = std::min(steps.low, result.loss() - 0.05);
  }
  Canvas canvas(width, height);
  canvas.text({left, 80}, "A small GPT-2 on the bytes of a text",
              {.size = 46, .color = ink, .bold = true});
  canvas.text({left, 132},
              "Validation loss, nats per byte; dashed: " + label(std::round(target * 1e4) / 1e4),
              {.size = 32, .color = quiet});
  steps.draw_axes(canvas, "steps");
  seconds.draw_axes(canvas, "seconds of training");
  for (const Panel& each : {steps, seconds})
    for (double x = 0; x < 1; x += 0.02)
      canvas.line(each.at(x * each.most, target), each.at((x + 0.008) * each.most, target), 3,
                  quiet);
  double y = top + 40;
  for (const Result& result : best) {
    std::vector<Point> over_steps, over_seconds;
    for (const Reading& reading : result.curve) {
      if (!std::isfinite(reading.loss)) continue;
      over_steps.push_back(steps.at(static_cast<double>(reading.step), reading.loss));
      over_seconds.push_back(seconds.at(reading.seconds, reading.loss));
    }
    canvas.curve(over_steps, 6, color(result));
    canvas.curve(over_seconds, 6, color(result));
    canvas.text({width - 80.0, y},
                result.method->name + "  " + label(std::round(result.loss() * 1e3) / 1e3),
                {.size = 34, .color = color(result), .align = Align::right, .bold = true});
    y += 52;
  }
  canvas.write_png(file);
}

}  // namespace gpt
