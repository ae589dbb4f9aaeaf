// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/canvas.h"

#include <cairo.h>

#include <numbers>
#include <stdexcept>

namespace fashion {

Canvas::Canvas(int width, int height)
    : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height),
               cairo_surface_destroy),
      pen_(cairo_create(surface_.get()), cairo_destroy) {
  set_color({1, 1, 1});
  cairo_paint(pen_.get());
  cairo_set_line_cap(pen_.get(), CAIRO_LINE_CAP_ROUND);
  cairo_set_line_join(pen_.get(), CAIRO_LINE_JOIN_ROUND);
}

void Canvas::set_color(Color color) {
  cairo_set_source_rgba(pen_.get(), color.red, color.green, color.blue, color.opacity);
}

void Canvas::line(Point from, Point to, double width, Color color) {
  const Point ends[] = {from, to};
  curve(ends, width, color);
}

void Canvas::curve(std::span<const Point> points, double width, Color color) {
  set_color(color);
  cairo_set_line_width(pen_.get(), width);
  for (const Point& point : points) cairo_line_to(pen_.get(), point.x, point.y);
  cairo_stroke(pen_.get());
}

void Canvas::disc(Point center, double radius, Color color) {
  set_color(color);
  cairo_arc(pen_.get(), center.x, center.y, radius, 0, 2 * std::numbers::pi);
  cairo_fill(pen_.get());
}

double Canvas::text(Point at, const std::string& text, const TextStyle& style) {
  set_color(style.color);
  cairo_select_font_face(pen_.get(), "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(pen_.get(), style.size);
  cairo_text_extents_t extents;
  cairo_text_extents(pen_.get(), text.c_str(), &extents);
  const double before = style.align == Align::left     ? 0
                        : style.align == Align::center ? extents.x_advance / 2
                                                       : extents.x_advance;
  cairo_save(pen_.get());
  cairo_translate(pen_.get(), at.x, at.y);
  if (style.upwards) cairo_rotate(pen_.get(), -std::numbers::pi / 2);
  cairo_move_to(pen_.get(), -before, 0);
  cairo_show_text(pen_.get(), text.c_str());
  cairo_restore(pen_.get());
  cairo_new_path(pen_.get());
  return extents.x_advance;
}

void Canvas::write_png(const std::filesystem::path& file) const {
  const cairo_status_t status = cairo_surface_write_to_png(surface_.get(), file.c_str());
  if (status != CAIRO_STATUS_SUCCESS)
    throw std::runtime_error(file.string() +
                             ": cannot be written: " + cairo_status_to_string(status));
}

}  // namespace fashion
