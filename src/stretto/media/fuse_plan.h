// What fuse() works out before it touches a pixel: shared by the kernels and the reference.
#pragma once

#include "stretto/media/fuse.h"

namespace stretto::media {

// How a picture is turned: first mirrored along its stored axes, then transposed.
struct Turn {
  bool mirror_x = false, mirror_y = false, transpose = false;
};
Turn turn_of(int orientation);  // throws InvalidArgument if it is not 1 to 8

// The two axes of the stored picture.
struct Axes {
  Axis x, y;
  bool transpose = false;  // outputs of `x` are rows of the result
};
Axes axes_of(const View& view, int64_t width, int64_t height);

struct PlaneTaps {
  Taps x, y;
};

// The tables of each distinct kind of plane: luma and chroma share none, chroma planes do.
struct Plan {
  Axes axes;
  std::array<PlaneTaps, 3> made;
  std::array<const PlaneTaps*, 3> taps{};  // of each plane, in `made`
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
};
void make_plan(const Planes& planes, const View& view, Plan& plan);

// Throws InvalidArgument if the taps reach outside of what the plane has.
void check_taps(const Plane& plane, const Taps& x, const Taps& y);

// What a value v in 0..255 becomes: v * scale + offset.
struct Scaling {
  std::array<float, 3> scale, offset;
};
Scaling scaling_of(const Target& target);

}  // namespace stretto::media
