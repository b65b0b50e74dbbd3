// Conv and stretto.Conv: cross-correlation over one to three spatial axes.
#include <cstring>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/epilogue.h"
#include "stretto/ir/ops/matrix_product.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"
#include "stretto/ir/ops/window.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'},
                            {"W", kRealTypes, Arity::kRequired, 'T'},
                            {"B", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kFusedInputs[] = {
    kInputs[0], kInputs[1], kInputs[2], {"residual", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {
    {"auto_pad", AttributeKind::kString}, {"dilations", AttributeKind::kInts},
    {"group", AttributeKind::kInt},       {"kernel_shape", AttributeKind::kInts},
    {"pads", AttributeKind::kInts},       {"strides", AttributeKind::kInts}};
constexpr AttributeSpec kOwnAttributes[] = {kAttributes[0],
                                            kAttributes[1],
                                            kAttributes[2],
                                            kAttributes[3],
                                            kAttributes[4],
                                            kAttributes[5],
                                            {"exact", AttributeKind::kInt}};
constexpr auto kFusedAttributes = with_epilogue(kOwnAttributes);

// The output's shape; checks everything but bias and residual.
Shape conv_shape(const Inference& c) {
  const Shape& x = c.shape(0);
  const Shape& weight = c.shape(1);
  const auto input = spatial_part(x, "input");
  if (weight.size() != x.size()) {
    throw_invalid("weight: expected rank {} as the input, got shape {}", x.size(),
                  shape_text(weight));
  }
  const auto kernel = spatial_part(weight, "weight");
  const Shape declared =
      c.attributes().integers("kernel_shape", Shape(kernel.begin(), kernel.end()));
  if (!std::equal(declared.begin(), declared.end(), kernel.begin(), kernel.end())) {
    throw_invalid("kernel_shape: expected {} as in the weight, got {}", shape_text(kernel),
                  shape_text(declared));
  }
  const int64_t groups = c.attributes().integer("group", 1);
  if (groups < 1 || weight[0] % groups != 0) {
    throw_invalid("group: {} output channels cannot be divided into {} groups", weight[0], groups);
  }
  if (weight[1] > kMaxElements / groups || weight[1] * groups != x[1]) {
    throw_invalid("weight has {} input channels x {} groups, input has {}", weight[1], groups,
                  x[1]);
  }
  return make_window(c.attributes(), input, kernel).output_shape(x[0], weight[0]);
}

void infer(Inference& c) {
  const Shape shape = conv_shape(c);
  check_bias(c, shape[1]);
  c.set_output(0, c.dtype(0), shape);
}

void infer_fused(Inference& c) {
  const Shape shape = conv_shape(c);
  check_epilogue(c, shape, shape[1]);
  c.set_output(0, c.dtype(0), shape);
}

// Rows of the matrix [channels x taps, output positions] that turns a convolution into a product.
template <typename T>
Rows image_rows(const T* image, const Window& w) {
  return {.read = [image, w](int64_t row, int64_t first, int64_t count, double* to) {
    const int64_t kx = row % w.kernel[2], ky = row / w.kernel[2] % w.kernel[1];
    const int64_t kz = row / (w.kernel[2] * w.kernel[1]) % w.kernel[0];
    const T* channel = image + row / w.kernel_size() * w.input_size();
    const Window::Valid valid = w.valid(2, kx);
    while (count > 0) {
      const int64_t ox = first % w.output[2];
      const int64_t length = std::min(w.output[2] - ox, count);
      const int64_t y = w.source(1, first / w.output[2] % w.output[1], ky);
      const int64_t z = w.source(0, first / (w.output[2] * w.output[1]), kz);
      std::fill_n(to, length, 0.0);
      if (y >= 0 && y < w.input[1] && z >= 0 && z < w.input[0]) {
        const T* line = channel + (z * w.input[1] + y) * w.input[2];
        const int64_t begin = std::max(valid.begin, ox), end = std::min(valid.end, ox + length);
        const int64_t stride = w.stride[2], shift = w.source(2, 0, kx);
        if (stride == 1 && begin < end) {
          std::copy(line + shift + begin, line + shift + end, to + begin - ox);
        } else {
          for (int64_t o = begin; o < end; ++o) {
            to[o - ox] = static_cast<double>(line[o * stride + shift]);
          }
        }
      }
      first += length;
      to += length;
      count -= length;
    }
  }};
}

// One output plane += one input channel filtered: for groups too narrow for a matrix product.
template <typename T>
void filter_plane(const T* channel, const T* kernel, const Window& w, double* plane) {
  for (int64_t kz = 0; kz < w.kernel[0]; ++kz) {
    const auto vz = w.valid(0, kz);
    for (int64_t ky = 0; ky < w.kernel[1]; ++ky) {
      const auto vy = w.valid(1, ky);
      for (int64_t kx = 0; kx < w.kernel[2]; ++kx) {
        const auto vx = w.valid(2, kx);
        const auto weight = static_cast<double>(*kernel++);
        const int64_t stride = w.stride[2], shift = w.source(2, 0, kx);
        for (int64_t oz = vz.begin; oz < vz.end; ++oz) {
          for (int64_t oy = vy.begin; oy < vy.end; ++oy) {
            const T* line =
                channel + (w.source(0, oz, kz) * w.input[1] + w.source(1, oy, ky)) * w.input[2];
            double* row = plane + (oz * w.output[1] + oy) * w.output[2];
            for (int64_t o = vx.begin; o < vx.end; ++o) {
              row[o] += weight * static_cast<double>(line[o * stride + shift]);
            }
          }
        }
      }
    }
  }
}

template <typename T>
void convolve(const Evaluation& c, const Window& w, Tensor& sums) {
  const Tensor& weight = c.inputs[1];
  const int64_t groups = c.attributes.integer("group", 1), batch = sums.dim(0);
  const int64_t in = weight.dim(1), out = weight.dim(0) / groups;  // channels of one group
  const T* x = data_of<T>(c.inputs[0]);
  const T* filters = data_of<T>(weight);
  double* y = data_of<double>(sums);
  constexpr int64_t kNarrow = 4;
  if (out < kNarrow) {
    parallel(c.team, batch * groups * out, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t group = plane / out;  // counts through the batch as well
        for (int64_t i = 0; i < in; ++i) {
          filter_plane(x + (group * in + i) * w.input_size(),
                       filters + (plane % (groups * out) * in + i) * w.kernel_size(), w,
                       y + plane * w.output_size());
        }
      }
    });
    return;
  }
  const bool pointwise = w.kernel_size() == 1 && w.output == w.input &&
                         w.stride == Window::Axes{1, 1, 1} && w.pad_begin == Window::Axes{};
  std::vector<Product> products;
  for (int64_t group = 0; group < batch * groups; ++group) {
    const T* image = x + group * in * w.input_size();
    const int64_t taps = in * w.kernel_size();
    products.push_back(
        {.m = out,
         .n = w.output_size(),
         .k = taps,
         .a = matrix_rows(filters + group % groups * out * taps, taps, 1),
         .b = pointwise ? matrix_rows(image, w.input_size(), 1) : image_rows(image, w),
         .c = y + group * out * w.output_size(),
         .row_stride = w.output_size()});
  }
  accumulate_products(products, c.team);
}

void evaluate(Evaluation& c) {
  const Window w = make_window(c.attributes, spatial_part(c.inputs[0].shape(), "input"),
                               spatial_part(c.inputs[1].shape(), "weight"));
  Tensor sums(DType::kFloat64, c.output_shapes[0]);
  if (sums.count() > 0) {
    with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() { convolve<T>(c, w, sums); });
  }
  finish(c, std::move(sums), 1);
}

double flops(const Graph& graph, const Node& node) {
  const Shape& weight = *graph.value(node.inputs[1]).shape;
  const Shape& y = *graph.value(node.outputs[0]).shape;
  double sum = 2;
  for (int64_t dim : y) sum *= static_cast<double>(dim);
  for (int64_t dim : std::span(weight).subspan(1)) sum *= static_cast<double>(dim);
  return sum;
}

}  // namespace

const Operator kConv{.name = "Conv",
                     .inputs = kInputs,
                     .outputs = kOutputs,
                     .attributes = kAttributes,
                     .infer = infer,
                     .evaluate = evaluate,
                     .flops = flops};

const Operator kFusedConv{.name = "stretto.Conv",
                          .inputs = kFusedInputs,
                          .outputs = kOutputs,
                          .attributes = kFusedAttributes,
                          .infer = infer_fused,
                          .evaluate = evaluate,
                          .flops = flops};

}  // namespace stretto::ir::ops
