// Cases of operators that work along axes: softmax, norms, reductions, searches.
#include <algorithm>

#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {

void softmax(CaseDraw& d) {
  const Shape shape = d.shape(1, 4, 33);
  d.axis_attribute("axis", -1, static_cast<int64_t>(shape.size()));
  d.input(shape);
}

namespace {

// [n, channels, 0 to 2 more axes] with parameters per channel.
void draw_channels(CaseDraw& d, int64_t channels) {
  d.number("epsilon", 1e-5, {1e-3, 1});
  Shape shape{d.batch(), channels};
  for (int64_t i = d.between(0, 2); i > 0; --i) shape.push_back(d.dim(9));
  d.input(shape);
  d.either({channels});
  d.either({channels});
}

}  // namespace

void instance_norm(CaseDraw& d) { draw_channels(d, d.dim(17)); }

void group_norm(CaseDraw& d) {
  const int64_t groups = d.one_of<int64_t>({1, 2, 4});
  d.set("num_groups", groups);
  d.integer("stash_type", 1, {1});
  draw_channels(d, groups * d.dim(5));
}

namespace {

void draw_layer(CaseDraw& d, bool centred) {
  const Shape shape = d.shape(1, 4, 33);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = d.axis_attribute("axis", -1, rank);
  d.number("epsilon", 1e-5, {1e-3, 1});
  d.integer("stash_type", 1, {1});
  d.input(shape);
  const Shape normalized(shape.end() - (axis < 0 ? -axis : rank - axis), shape.end());
  d.either(d.rarely() ? d.partner(normalized) : normalized);
  if (!centred) return;
  d.maybe() ? d.either(normalized) : d.absent();
  d.outputs(d.rarely() ? 3 : 1);
}

}  // namespace

void layer_norm(CaseDraw& d) { draw_layer(d, true); }
void rms_norm(CaseDraw& d) { draw_layer(d, false); }

void add_layer_norm(CaseDraw& d) {
  const Shape shape = d.shape(1, 3, 33);
  d.number("epsilon", 1e-5, {1e-3, 1});
  d.input(shape);
  d.input(shape);
  d.either({shape.back()});
  d.maybe() ? d.either({shape.back()}) : d.absent();
  d.outputs(d.maybe() ? 2 : 1);
}

void batch_norm(CaseDraw& d) {
  d.number("epsilon", 1e-5, {1e-3, 1});
  d.number("momentum", 0.9, {0.5});
  d.integer("training_mode", 0, {0});
  const Shape shape = d.shape(1, 5, 17);
  d.input(shape);
  const Shape channels{shape.size() == 1 ? 1 : shape[1]};
  d.weight(channels);
  d.weight(channels);
  d.weight(channels);
  d.weight(channels, Fill::kPositive);
}

void lrn(CaseDraw& d) {
  d.set("size", d.between(1, 6));
  d.number("alpha", 1e-4, {0.5, 2});
  d.number("beta", 0.75, {0.5, 1});
  d.number("bias", 1, {2});
  d.input(d.shape(2, 4));
}

void reduce(CaseDraw& d) {
  const Shape shape = d.shape(0, 4);
  d.toggle("keepdims", true);
  d.toggle("noop_with_empty_axes");
  d.input(shape);
  d.maybe() ? d.fixed(d.axes(static_cast<int64_t>(shape.size()))) : d.absent();
}

void cumsum(CaseDraw& d) {
  const Shape shape = d.shape(1, 4);
  d.toggle("exclusive");
  d.toggle("reverse");
  d.input(shape);
  d.fixed_scalar(static_cast<double>(d.axis(static_cast<int64_t>(shape.size()))));
}

void arg(CaseDraw& d) {
  const Shape shape = d.shape(1, 4);
  d.axis_attribute("axis", 0, static_cast<int64_t>(shape.size()));
  d.toggle("keepdims", true);
  d.toggle("select_last_index");
  d.input(shape);
}

void top(CaseDraw& d) {
  const Shape shape = d.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = d.axis_attribute("axis", -1, rank);
  d.toggle("largest", true);
  d.toggle("sorted", true);
  d.input(shape);
  d.fixed({std::min(d.between(0, 4), shape[axis < 0 ? axis + rank : axis])});
  d.outputs(2);
}

}  // namespace stretto::ir::cases
