// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

struct _cairo;
struct _cairo_surface;

namespace fashion {

/// Red, green, blue and opacity, each from 0 to 1.
struct Color {
  double red, green, blue, opacity = 1;

  Color faded(double to) const { return {red, green, blue, to}; }
};

/// In pixels, from the top left.
struct Point {
  double x, y;
};

enum class Align { left, center, right };

struct TextStyle {
  double size;  ///< in pixels
  Color color;
  Align align = Align::left;
  bool bold = false;
  bool upwards = false;  ///< reads from bottom to top
};

/// A white picture to draw on.
class Canvas {
 public:
  Canvas(int width, int height);

  void line(Point from, Point to, double width, Color color);
  void curve(std::span<const Point> points, double width, Color color);
  void disc(Point center, double radius, Color color);
  /// `at` is on the base line of the text; returns the text's width.
  double text(Point at, const std::string& text, const TextStyle& style);

  /// Throws std::runtime_error that names the file when it cannot be written.
  void write_png(const std::filesystem::path& file) const;

 private:
  void set_color(Color color);

  std::unique_ptr<_cairo_surface, void (*)(_cairo_surface*)> surface_;
  std::unique_ptr<_cairo, void (*)(_cairo*)> pen_;
};

}  // namespace fashion
