// Cases of operators that move elements without looking at them.
#include <cstdint>
#include <numeric>

#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {

void transpose(CaseDraw& d) {
  const Shape shape = d.shape(0, 5);
  if (d.maybe()) d.set("perm", d.permutation(static_cast<int64_t>(shape.size())));
  d.input(shape);
}

void expand(CaseDraw& d) {
  const Shape shape = d.shape(0, 4, 9), part = d.partner(shape);
  d.input(part);
  // Ones in the wanted shape keep the input's dimension.
  d.fixed(d.maybe() ? d.partner(shape) : shape);
}

void tile(CaseDraw& d) {
  const Shape shape = d.shape(0, 4, 9);
  d.input(shape);
  std::vector<int64_t> repeats;
  for (size_t i = 0; i < shape.size(); ++i) repeats.push_back(d.one_of<int64_t>({1, 2, 3, 0}));
  d.fixed(repeats);
}

void slice(CaseDraw& d) {
  const Shape shape = d.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  const bool listed = d.maybe(), stepped = d.maybe();
  std::vector<int64_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (listed) axes = d.axes(rank);
  std::vector<int64_t> starts, ends, steps;
  for (int64_t axis : axes) {
    const int64_t size = shape[axis < 0 ? axis + rank : axis];
    const int64_t from = d.one_of<int64_t>({0, 1, -1, -size, size / 2, size - 1, INT32_MAX});
    const int64_t to = d.one_of<int64_t>({size, -1, INT32_MAX, size / 2, INT32_MIN, 0});
    const int64_t step = stepped ? d.one_of<int64_t>({1, 2, -1, 3, -2, -7}) : 1;
    starts.push_back(step < 0 ? to : from);
    ends.push_back(step < 0 ? from : to);
    steps.push_back(step);
  }
  d.input(shape);
  d.fixed(starts);
  d.fixed(ends);
  listed ? d.fixed(axes) : d.absent();
  stepped ? d.fixed(steps) : d.absent();
}

void depth_to_space(CaseDraw& d) {
  const int64_t block = d.one_of<int64_t>({1, 2, 3});
  d.set("blocksize", block);
  d.text("mode", "DCR", {"CRD", "DCR"});
  d.input({d.batch(), d.dim(3) * block * block, d.dim(5), d.dim(5)});
}

void space_to_depth(CaseDraw& d) {
  const int64_t block = d.one_of<int64_t>({1, 2, 3});
  d.set("blocksize", block);
  d.text("mode", "DCR", {"CRD", "DCR"});
  d.input({d.batch(), d.dim(3), d.dim(4) * block, d.dim(4) * block});
}

void reshape(CaseDraw& d) {
  const Shape shape = d.shape(0, 4);
  const bool zero_is_zero = d.toggle("allowzero");
  Shape to;
  switch (d.choose(4)) {
    case 0:
      to = {-1};
      break;
    case 1:  // the same dimensions in another order
      for (int64_t axis : d.permutation(static_cast<int64_t>(shape.size()))) {
        to.push_back(shape[axis]);
      }
      break;
    case 2:  // 0 copies
      to = shape;
      if (!to.empty()) to[0] = zero_is_zero ? to[0] : 0;
      break;
    default:
      to = shape;
      if (!to.empty()) to.back() = -1;
      to.push_back(1);
  }
  d.input(shape);
  d.fixed(to);
}

void flatten(CaseDraw& d) {
  const Shape shape = d.shape(0, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  if (d.maybe()) d.set("axis", d.between(0, 2 * rank) - rank);
  d.input(shape);
}

void squeeze(CaseDraw& d) {
  Shape shape = d.shape(0, 5, 9);
  const bool listed = d.maybe();
  const auto rank = static_cast<int64_t>(shape.size());
  const std::vector<int64_t> axes = d.axes(rank);
  for (int64_t axis : axes) shape[axis < 0 ? axis + rank : axis] = 1;
  d.input(shape);
  listed ? d.fixed(axes) : d.absent();
}

void unsqueeze(CaseDraw& d) {
  const int64_t rank = d.between(1, 5);
  const std::vector<int64_t> axes = d.axes(rank);
  const int64_t kept = rank - static_cast<int64_t>(axes.size());
  d.input(d.shape(kept, kept, 9));
  d.fixed(axes);
}

void append(CaseDraw& d) {
  const Shape memory{d.dim(3), d.dim(4), d.between(2, 9), d.dim(9)};
  Shape added = memory;
  const int64_t length = d.between(0, memory[2] - 1);
  d.set("axis", int64_t{2});
  d.set("length", length);
  added[2] = d.between(1, memory[2] - length);
  d.input(memory);
  d.input(added);
}

void concat(CaseDraw& d) {
  if (d.maybe()) {  // images by channels, half of them in whole blocks of any layout
    const bool whole = d.maybe();
    Shape image{d.one_of<int64_t>({1, 2, 3, 2}), 0, d.dim(4), d.dim(4)};
    d.set("axis", int64_t{1});
    for (int64_t i = d.between(1, 3); i > 0; --i) {
      image[1] = whole ? d.one_of<int64_t>({16, 32}) : d.one_of<int64_t>({4, 8, 16, 3, 17, 32});
      d.input(image);
    }
    return;
  }
  const Shape shape = d.shape(1, 4, 9);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = d.axis(rank);
  d.set("axis", axis);
  for (int64_t i = d.between(1, 4); i > 0; --i) {
    Shape part = shape;
    part[axis < 0 ? axis + rank : axis] = d.rarely() ? 0 : d.dim(8);
    d.input(part);
  }
}

void split(CaseDraw& d) {
  Shape shape = d.shape(1, 4, 9);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = d.axis_attribute("axis", 0, rank), at = axis < 0 ? axis + rank : axis;
  const int64_t parts = d.between(1, 4);
  d.outputs(static_cast<int>(parts));
  if (d.maybe()) {
    std::vector<int64_t> sizes;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(d.rarely() ? 0 : d.dim(5));
    shape[at] = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    d.input(shape);
    d.fixed(sizes);
  } else {
    d.integer("num_outputs", parts, {parts});
    shape[at] = parts * d.dim(3) - (d.maybe() ? 1 : 0);
    d.input(shape);
    d.absent();
  }
}

void identity(CaseDraw& d) { d.input(d.shape(0, 4)); }

void pad(CaseDraw& d) {
  const Shape shape = d.shape(1, 4, 9);
  const auto rank = static_cast<int64_t>(shape.size());
  d.text("mode", "constant", {"reflect", "edge", "wrap", "constant"});
  const bool listed = d.maybe();
  const std::vector<int64_t> axes = listed ? d.axes(rank) : std::vector<int64_t>(shape.size());
  std::vector<int64_t> pads;
  for (size_t i = 0; i < 2 * axes.size(); ++i) pads.push_back(d.one_of<int64_t>({0, 1, 2, -1, 3}));
  d.input(shape);
  d.fixed(pads);
  d.maybe() ? d.either({}) : d.absent();
  listed ? d.fixed(axes) : d.absent();
}

void trilu(CaseDraw& d) {
  d.toggle("upper", true);
  d.input(d.shape(2, 4, 9));
  d.maybe() ? d.fixed_scalar(static_cast<double>(d.one_of<int64_t>({0, 1, -1, 5, -9})))
            : d.absent();
}

}  // namespace stretto::ir::cases
