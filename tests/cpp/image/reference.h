// Images by their definition, in float64: one output pixel after the other, with weights that are
// functions of distances, and colors by the formulas of textbooks.
#pragma once

#include <vector>

#include "image/problem.h"

namespace robocache::testing {

/// The position in the source of the center of output pixel (u, v).
struct SourcePosition {
  double x, y;
  bool exists;
};

/// Where a spec without augmentation takes output pixels from.
SourcePosition position_by_definition(const ImageProblem& problem, std::int64_t u, std::int64_t v);

/// Frame 0 as numbers [h,w,C] before (x - subtract) * multiply, without augmentation. NaN where the
/// definition is not continuous: at the end of the weights of kMasked's only measurements.
std::vector<double> image_by_definition(const ImageProblem& problem);

/// A sample of the source at a position: bilinear of a width s on each axis, nearest or masked.
double sample_by_definition(const ImageProblem& problem, std::int64_t frame, double x, double y,
                            double width_x, double width_y, std::int64_t channel);

/// A color step, by hue, saturation and value where it turns the hue.
void change_by_definition(ColorStep step, double factor, double mean, double (&rgb)[3]);

}  // namespace robocache::testing
