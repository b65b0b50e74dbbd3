// ConvTranspose and stretto.ConvTranspose: the adjoint of a convolution from its output's space
// (here the input) to its input's space (here the output).
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
    {"auto_pad", AttributeKind::kString},     {"dilations", AttributeKind::kInts},
    {"group", AttributeKind::kInt},           {"kernel_shape", AttributeKind::kInts},
    {"output_padding", AttributeKind::kInts}, {"output_shape", AttributeKind::kInts},
    {"pads", AttributeKind::kInts},           {"strides", AttributeKind::kInts}};
constexpr auto kFusedAttributes = with_epilogue(kAttributes);

// Larger extents are mistakes, and products of smaller ones with strides and dilations, which are
// bounded too, cannot overflow.
constexpr int64_t kLargest = int64_t{1} << 30;

// The window of the convolution whose adjoint this is: its input is our output.
Window adjoint_window(const Attributes& attributes, const Shape& x, const Shape& weight) {
  const auto input = spatial_part(x, "input"), kernel = spatial_part(weight, "weight");
  Window w;
  w.rank = static_cast<int>(input.size());
  std::copy(input.begin(), input.end(), w.output.end() - w.rank);
  std::copy(kernel.begin(), kernel.end(), w.kernel.end() - w.rank);
  w.stride = spatial_attribute(attributes, "strides", w.rank, 1, 1);
  w.dilation = spatial_attribute(attributes, "dilations", w.rank, 1, 1);
  const Window::Axes extra = spatial_attribute(attributes, "output_padding", w.rank, 0, 0);
  const bool sized = attributes.has("output_shape");
  const Window::Axes wanted =
      sized ? spatial_attribute(attributes, "output_shape", w.rank, 1, 1) : Window::Axes{1, 1, 1};
  const std::string mode = auto_pad_mode(attributes);
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (mode == "NOTSET" && !sized) read_pads(attributes, w);

  for (int axis = 3 - w.rank; axis < 3; ++axis) {
    const int64_t in = w.output[axis];
    if (w.kernel[axis] < 1 || in < 1 || w.kernel[axis] > kLargest || in > kLargest) {
      throw_invalid(
          "expected kernel and image of 1 to 2^30 along each axis, got kernel {} and image {}",
          shape_text(kernel), shape_text(input));
    }
    const int64_t full =
        (in - 1) * w.stride[axis] + (w.kernel[axis] - 1) * w.dilation[axis] + 1 + extra[axis];
    if (same || sized) {
      w.input[axis] = sized ? wanted[axis] : in * w.stride[axis];
      const int64_t pad = std::max<int64_t>(full - w.input[axis], 0);
      w.pad_begin[axis] = mode == "SAME_UPPER" ? pad / 2 : pad - pad / 2;
      w.pad_end[axis] = pad - w.pad_begin[axis];
    } else {
      w.input[axis] = full - w.pad_begin[axis] - w.pad_end[axis];
    }
    if (w.input[axis] < 1) {
      throw_invalid("pads: {} and {} cut off the whole output of {}", w.pad_begin[axis],
                    w.pad_end[axis], full);
    }
  }
  return w;
}

Shape output_shape(const Inference& c) {
  const Shape& x = c.shape(0);
  const Shape& weight = c.shape(1);
  if (weight.size() != x.size()) {
    throw_invalid("weight: expected rank {} as the input, got shape {}", x.size(),
                  shape_text(weight));
  }
  const Window w = adjoint_window(c.attributes(), x, weight);
  const auto kernel = spatial_part(weight, "weight");
  const Shape declared =
      c.attributes().integers("kernel_shape", Shape(kernel.begin(), kernel.end()));
  if (!std::equal(declared.begin(), declared.end(), kernel.begin(), kernel.end())) {
    throw_invalid("kernel_shape: expected {} as in the weight, got {}", shape_text(kernel),
                  shape_text(declared));
  }
  const int64_t groups = c.attributes().integer("group", 1);
  if (groups < 1 || groups > kLargest || x[1] % groups != 0) {
    throw_invalid("group: {} input channels cannot be divided into {} groups", x[1], groups);
  }
  if (weight[0] != x[1]) {
    throw_invalid("weight has {} input channels, input has {}", weight[0], x[1]);
  }
  if (weight[1] > kMaxElements / groups) {
    throw_invalid("group: {} groups of {} output channels are too many", groups, weight[1]);
  }
  Shape shape{x[0], weight[1] * groups};
  shape.insert(shape.end(), w.input.end() - w.rank, w.input.end());
  return shape;
}

void infer(Inference& c) {
  const Shape shape = output_shape(c);
  check_bias(c, shape[1]);
  c.set_output(0, c.dtype(0), shape);
}

void infer_fused(Inference& c) {
  const Shape shape = output_shape(c);
  check_epilogue(c, shape, shape[1]);
  c.set_output(0, c.dtype(0), shape);
}

// Adds the columns of one output channel, [taps, input positions], to its image.
void add_columns(const double* columns, const Window& w, double* image) {
  for (int64_t kz = 0; kz < w.kernel[0]; ++kz) {
    const auto vz = w.valid(0, kz);
    for (int64_t ky = 0; ky < w.kernel[1]; ++ky) {
      const auto vy = w.valid(1, ky);
      for (int64_t kx = 0; kx < w.kernel[2]; ++kx, columns += w.output_size()) {
        const auto vx = w.valid(2, kx);
        const int64_t stride = w.stride[2], shift = w.source(2, 0, kx);
        for (int64_t z = vz.begin; z < vz.end; ++z) {
          for (int64_t y = vy.begin; y < vy.end; ++y) {
            const double* from = columns + (z * w.output[1] + y) * w.output[2];
            double* to =
                image + (w.source(0, z, kz) * w.input[1] + w.source(1, y, ky)) * w.input[2] + shift;
            for (int64_t x = vx.begin; x < vx.end; ++x) to[x * stride] += from[x];
          }
        }
      }
    }
  }
}

void evaluate(Evaluation& c) {
  const Tensor& weight = c.inputs[1];
  const Window w = adjoint_window(c.attributes, c.inputs[0].shape(), weight.shape());
  const int64_t groups = c.attributes.integer("group", 1), batch = c.inputs[0].dim(0);
  const int64_t in = weight.dim(0) / groups, out = weight.dim(1);  // channels of one group
  const int64_t taps = out * w.kernel_size(), positions = w.output_size();
  Tensor sums(DType::kFloat64, c.output_shapes[0]);
  // A tensor and not a vector: its size is checked like any other's.
  Tensor scratch(DType::kFloat64, {out, w.kernel_size(), positions});
  const std::span<double> columns = scratch.mutable_values<double>();
  with_type<kRealTypes>(weight.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < batch * groups; ++i) {
      std::fill(columns.begin(), columns.end(), 0.0);
      const Product product{
          .m = taps,
          .n = positions,
          .k = in,
          .a = matrix_rows(data_of<T>(weight) + i % groups * in * taps, 1, taps),
          .b = matrix_rows(data_of<T>(c.inputs[0]) + i * in * positions, positions, 1),
          .c = columns.data(),
          .row_stride = positions};
      accumulate_products({&product, 1}, c.team);
      double* images = data_of<double>(sums) + i * out * w.input_size();
      parallel(c.team, out, 1, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          add_columns(columns.data() + o * w.kernel_size() * positions, w,
                      images + o * w.input_size());
        }
      });
    }
  });
  finish(c, std::move(sums), 1);
}

double flops(const Graph& graph, const Node& node) {
  const Shape& weight = *graph.value(node.inputs[1]).shape;
  double sum = 2;
  for (int64_t dim : *graph.value(node.inputs[0]).shape) sum *= static_cast<double>(dim);
  for (int64_t dim : std::span(weight).subspan(1)) sum *= static_cast<double>(dim);
  return sum;
}

}  // namespace

const Operator kConvTranspose{.name = "ConvTranspose",
                              .inputs = kInputs,
                              .outputs = kOutputs,
                              .attributes = kAttributes,
                              .infer = infer,
                              .evaluate = evaluate,
                              .flops = flops};

const Operator kFusedConvTranspose{.name = "stretto.ConvTranspose",
                                   .inputs = kFusedInputs,
                                   .outputs = kOutputs,
                                   .attributes = kFusedAttributes,
                                   .infer = infer_fused,
                                   .evaluate = evaluate,
                                   .flops = flops};

}  // namespace stretto::ir::ops
