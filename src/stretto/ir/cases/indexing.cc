// Cases of operators that read and write by index, and of those that make tensors from numbers.
#include <algorithm>

#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {

void gather(CaseDraw& d) {
  const Shape shape = d.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = d.axis_attribute("axis", 0, rank);
  const int64_t size = shape[axis < 0 ? axis + rank : axis];
  d.either(shape);
  d.index(size == 0 ? Shape{0} : d.shape(0, 2, 5), size);
}

void gather_elements(CaseDraw& d) {
  const Shape shape = d.shape(1, 4, 9);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = d.axis_attribute("axis", 0, rank), at = axis < 0 ? axis + rank : axis;
  Shape indices = shape;
  for (int64_t& dim : indices) dim = d.rarely() ? dim / 2 : dim;
  if (shape[at] != 0) indices[at] = d.dim(7);
  d.input(shape);
  d.index(indices, shape[at]);
}

void gather_nd(CaseDraw& d) {
  Shape shape;
  for (int64_t i = d.between(1, 4); i > 0; --i) shape.push_back(d.dim(5));
  const int64_t batch = d.integer("batch_dims", 0, {1, 0});
  Shape indices(shape.begin(), shape.begin() + batch);
  for (int64_t i = d.between(0, 2); i > 0; --i) indices.push_back(d.dim(3));
  const auto room = static_cast<int64_t>(shape.size()) - batch;
  const int64_t depth = room < 1 ? 1 : d.between(1, room);
  indices.push_back(depth);
  d.input(shape);
  // One range for all axes of the tuple: the smallest.
  d.index(indices, *std::min_element(shape.begin(), shape.end()));
}

void row_index(CaseDraw& d) {
  const int64_t batch = d.batch(), length = d.dim(19);
  // Fewer rows than the mask keeps, about as many, or more.
  d.set("rows", d.one_of<int64_t>({0, 1, 7, batch * length / 2, batch * length, 70}));
  d.input({batch, length});
  d.outputs(5);
}

void take_rows(CaseDraw& d) {
  const Shape shape = d.shape(1, 3);
  d.either(shape);
  d.index({d.dim(19)}, shape[0] + 1);  // some are out of range
}

void scatter_elements(CaseDraw& d) {
  const Shape shape = d.shape(1, 3, 9);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = d.axis_attribute("axis", 0, rank), at = axis < 0 ? axis + rank : axis;
  d.text("reduction", "none", {"add", "mul", "max", "min", "none"});
  Shape indices = shape;
  for (int64_t& dim : indices) dim = d.rarely() ? dim / 2 : dim;
  d.input(shape);
  d.index(indices, shape[at]);
  d.input(indices);
}

void scatter_nd(CaseDraw& d) {
  Shape shape;
  for (int64_t i = d.between(1, 3); i > 0; --i) shape.push_back(d.dim(7));
  const int64_t depth = d.between(1, static_cast<int64_t>(shape.size()));
  d.text("reduction", "none", {"add", "mul", "max", "min", "none"});
  Shape indices;
  for (int64_t i = d.between(0, 2); i > 0; --i) indices.push_back(d.dim(4));
  Shape updates = indices;
  indices.push_back(depth);
  updates.insert(updates.end(), shape.begin() + depth, shape.end());
  d.input(shape);
  d.index(indices, *std::min_element(shape.begin(), shape.end()));
  d.input(updates);
}

namespace {

Tensor drawn_value(CaseDraw& d, const Shape& shape) {
  const DType dtype = d.one_of({DType::kFloat32, DType::kInt64, DType::kBool, DType::kFloat64});
  std::vector<int64_t> values(static_cast<size_t>(element_count(shape)));
  for (int64_t& value : values) value = d.between(0, 3);
  return Tensor::of<int64_t>(shape, values).converted(dtype);
}

}  // namespace

void constant(CaseDraw& d) { d.set("value", drawn_value(d, d.shape(0, 2, 5))); }

void constant_of_shape(CaseDraw& d) {
  if (d.maybe()) d.set("value", drawn_value(d, {1}));
  d.fixed(d.shape(0, 3));
}

void one_hot(CaseDraw& d) {
  const Shape shape = d.shape(0, 3, 5);
  const int64_t depth = d.dim(5);
  d.axis_attribute("axis", -1, static_cast<int64_t>(shape.size()) + 1);
  d.index(shape, depth + 1);  // one too far now and then: switches nothing on
  d.fixed_scalar(static_cast<double>(depth));
  d.either({2});
}

void range(CaseDraw& d) {
  const double step = static_cast<double>(d.between(1, 3)) * (d.maybe() ? -1 : 1);
  const auto start = static_cast<double>(d.between(0, 4));
  d.fixed_scalar(start);
  d.fixed_scalar(start + step * static_cast<double>(d.between(0, 7)) + (d.maybe() ? 1 : 0));
  d.fixed_scalar(step);
}

void shape_of(CaseDraw& d) {
  const Shape shape = d.shape(0, 4);
  d.integer("start", 0, {1, -1, -9, 9});
  d.integer("end", static_cast<int64_t>(shape.size()), {1, -1, -9, 9});
  d.input(shape);
}

void size_of(CaseDraw& d) { d.input(d.shape(0, 4)); }

}  // namespace stretto::ir::cases
