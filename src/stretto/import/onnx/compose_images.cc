// AffineGrid and CenterCropPad.
#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

// Homogeneous coordinates of all pixels, [pixels, axes + 1], the innermost axis first.
Tensor pixel_coordinates(const Shape& size, bool align_corners) {
  const auto axes = static_cast<int64_t>(size.size());
  const int64_t pixels = element_count(size);
  Tensor grid(DType::kFloat64, {pixels, axes + 1});
  auto values = grid.mutable_values<double>();
  for (int64_t i = 0; i < pixels; ++i) {
    int64_t rest = i;
    for (int64_t axis = axes - 1; axis >= 0; --axis) {
      const auto at = static_cast<double>(rest % size[axis]);
      rest /= size[axis];
      const auto count = static_cast<double>(size[axis]);
      values[i * (axes + 1) + axes - 1 - axis] =
          align_corners ? (count > 1 ? -1 + 2 * at / (count - 1) : -1) : -1 + (2 * at + 1) / count;
    }
    values[i * (axes + 1) + axes] = 1;
  }
  return grid;
}

}  // namespace

void compose_affine_grid(PendingNode& node) {
  if (!node.has_input(0)) throw_invalid("{} \"{}\": theta is missing", node.op, node.name);
  Parts parts(node);
  const std::vector<int64_t> size = known_integers(node, 1, "size");
  const Id theta = node.inputs[0];
  const Shape shape = parts.shape(theta);
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  if ((axes != 2 && axes != 3) || shape != Shape{size[0], axes, axes + 1}) {
    throw_invalid("{} \"{}\": theta of shape {} does not fit size {}", node.op, node.name,
                  shape_text(shape), shape_text(size));
  }
  const Shape spatial(size.begin() + 2, size.end());
  element_count(size);
  const bool align = node.attributes.integer("align_corners", 0) != 0;
  const Id pixels = parts.constant(pixel_coordinates(spatial, align).converted(parts.dtype(theta)));
  Shape result{size[0]};
  result.insert(result.end(), spatial.begin(), spatial.end());
  result.push_back(axes);
  node.results = {parts.reshape(parts.matmul(pixels, parts.transpose(theta, {0, 2, 1})), result)};
}

void compose_center_crop_pad(PendingNode& node) {
  if (!node.has_input(0)) throw_invalid("{} \"{}\": input_data is missing", node.op, node.name);
  Parts parts(node);
  const std::vector<int64_t> wanted = known_integers(node, 1, "shape");
  Id x = node.inputs[0];
  const auto rank = static_cast<int64_t>(parts.shape(x).size());
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank; ++i) axes[i] = i;
  axes = node.attributes.integers("axes", axes);
  if (axes.size() != wanted.size()) {
    throw_invalid("{} \"{}\": shape has {} values for {} axes", node.op, node.name, wanted.size(),
                  axes.size());
  }
  std::vector<int64_t> pads(static_cast<size_t>(2 * rank), 0);
  bool padded = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = normalize_axis(axes[i], rank, node.op + ": axes");
    const int64_t has = parts.shape(x)[axis];
    if (wanted[i] < 0) {
      throw_invalid("{} \"{}\": shape has the negative value {}", node.op, node.name, wanted[i]);
    }
    if (wanted[i] < has) {
      const int64_t begin = (has - wanted[i]) / 2;
      x = parts.slice(x, axis, begin, begin + wanted[i]);
    } else if (wanted[i] > has) {
      pads[axis] = (wanted[i] - has) / 2;
      pads[rank + axis] = wanted[i] - has - pads[axis];
      padded = true;
    }
  }
  node.results = {padded ? parts.op("Pad", {x, parts.integers(pads)}) : x};
}

}  // namespace stretto::onnx
