// The inverses of windows: Col2Im adds up overlapping blocks, MaxUnpool puts values where a MaxPool
// took them from.
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/indexing.h"
#include "stretto/ir/ops/table.h"
#include "stretto/ir/ops/window.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kColInputs[] = {{"input", kRealTypes, Arity::kRequired, 'T'},
                               {"image_shape", type_bit(DType::kInt64)},
                               {"block_shape", type_bit(DType::kInt64)}};
constexpr Port kColOutputs[] = {{"output", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kColAttributes[] = {{"dilations", AttributeKind::kInts},
                                            {"pads", AttributeKind::kInts},
                                            {"strides", AttributeKind::kInts}};

// The window whose outputs are the blocks.
Window blocks_of(const Attributes& attributes, const std::vector<int64_t>& image,
                 const std::vector<int64_t>& block) {
  if (image.empty() || image.size() > 3) {
    throw_unsupported("image_shape: one to three axes are supported, not {}", image.size());
  }
  element_count(image);
  return make_window(attributes, image, block);
}

void infer_col(Inference& c) {
  const std::vector<int64_t> image = c.constant_integers(1, "image_shape");
  const std::vector<int64_t> block = c.constant_integers(2, "block_shape");
  const Window window = blocks_of(c.attributes(), image, block);
  const Shape& x = c.shape(0);
  if (x.size() != 3 || x[1] % window.kernel_size() != 0 || x[2] != window.output_size()) {
    throw_invalid("input: expected shape [batch, channels * {}, {}], got {}", window.kernel_size(),
                  window.output_size(), shape_text(x));
  }
  Shape y{x[0], x[1] / window.kernel_size()};
  y.insert(y.end(), image.begin(), image.end());
  c.set_output(0, c.dtype(0), std::move(y));
}

void evaluate_col(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const Window w = blocks_of(c.attributes, c.inputs[1].as_int64s(), c.inputs[2].as_int64s());
  const int64_t taps = w.kernel_size(), blocks = w.output_size(), pixels = w.input_size();
  std::vector<double> sums(static_cast<size_t>(pixels));
  with_type<kRealTypes>(x.dtype(), [&]<typename T>() {
    const T* from = data_of<T>(x);
    T* y = data_of<T>(c.make_output(0));
    for (int64_t plane = 0; plane < x.dim(0) * x.dim(1) / taps; ++plane) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t kz = tap / (w.kernel[1] * w.kernel[2]), ky = tap / w.kernel[2] % w.kernel[1],
                      kx = tap % w.kernel[2];
        const auto vz = w.valid(0, kz), vy = w.valid(1, ky), vx = w.valid(2, kx);
        const T* row = from + (plane * taps + tap) * blocks;
        for (int64_t oz = vz.begin; oz < vz.end; ++oz) {
          for (int64_t oy = vy.begin; oy < vy.end; ++oy) {
            for (int64_t ox = vx.begin; ox < vx.end; ++ox) {
              const int64_t at =
                  (w.source(0, oz, kz) * w.input[1] + w.source(1, oy, ky)) * w.input[2] +
                  w.source(2, ox, kx);
              sums[at] += static_cast<double>(row[(oz * w.output[1] + oy) * w.output[2] + ox]);
            }
          }
        }
      }
      for (double sum : sums) *y++ = static_cast<T>(sum);
    }
  });
}

constexpr Port kUnpoolInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'},
                                  {"I", type_bit(DType::kInt64)},
                                  {"output_shape", type_bit(DType::kInt64), Arity::kOptional}};
constexpr Port kUnpoolOutputs[] = {{"output", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kUnpoolAttributes[] = {{"kernel_shape", AttributeKind::kInts, true},
                                               {"pads", AttributeKind::kInts},
                                               {"strides", AttributeKind::kInts}};

// What a MaxPool with these attributes had as its input.
Shape pooled_from(const Attributes& attributes, const Shape& x) {
  Window w;
  w.rank = static_cast<int>(spatial_part(x, "X").size());
  const Window::Axes kernel = spatial_attribute(attributes, "kernel_shape", w.rank, 1, 1);
  const Window::Axes stride = spatial_attribute(attributes, "strides", w.rank, 1, 1);
  read_pads(attributes, w);
  Shape shape = x;
  for (int i = 0; i < w.rank; ++i) {
    const int axis = 3 - w.rank + i;
    shape[2 + i] =
        (x[2 + i] - 1) * stride[axis] - w.pad_begin[axis] - w.pad_end[axis] + kernel[axis];
  }
  element_count(shape);
  return shape;
}

void infer_unpool(Inference& c) {
  const Shape& x = c.shape(0);
  if (c.shape(1) != x) {
    throw_invalid("I: expected X's shape {}, got {}", shape_text(x), shape_text(c.shape(1)));
  }
  const Shape natural = pooled_from(c.attributes(), x);
  Shape shape = natural;
  if (c.has_input(2)) {
    shape = c.constant_integers(2, "output_shape");
    bool fits = shape.size() == x.size() && shape[0] == x[0] && shape[1] == x[1];
    for (size_t i = 2; fits && i < shape.size(); ++i) fits = shape[i] >= natural[i];
    if (!fits) {
      throw_invalid("output_shape: expected {} or more, got {}", shape_text(natural),
                    shape_text(shape));
    }
  }
  c.set_output(0, c.dtype(0), std::move(shape));
}

// Indices count in the natural shape; a larger output has zeros behind it.
void evaluate_unpool(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const Shape natural = pooled_from(c.attributes, x.shape());
  const std::vector<int64_t> strides = row_major_strides(c.output_shapes[0]);
  const std::vector<int64_t> places =
      normalized_indices(c.inputs[1].as_int64s(), element_count(natural));
  with_type<kRealTypes>(x.dtype(), [&]<typename T>() {
    T* y = data_of<T>(c.make_output(0));
    for (size_t i = 0; i < places.size(); ++i) {
      int64_t rest = places[i], at = 0;
      for (size_t axis = natural.size(); axis-- > 0;) {
        at += rest % natural[axis] * strides[axis];
        rest /= natural[axis];
      }
      y[at] = data_of<T>(x)[i];
    }
  });
}

}  // namespace

const Operator kCol2Im{.name = "Col2Im",
                       .inputs = kColInputs,
                       .outputs = kColOutputs,
                       .attributes = kColAttributes,
                       .infer = infer_col,
                       .evaluate = evaluate_col};

const Operator kMaxUnpool{.name = "MaxUnpool",
                          .inputs = kUnpoolInputs,
                          .outputs = kUnpoolOutputs,
                          .attributes = kUnpoolAttributes,
                          .infer = infer_unpool,
                          .evaluate = evaluate_unpool};

}  // namespace stretto::ir::ops
