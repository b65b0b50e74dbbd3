// MaxPool, AveragePool and LpPool over one to three spatial axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"
#include "stretto/ir/ops/window.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kMaxTypes = kRealTypes | type_bit(DType::kInt8) | type_bit(DType::kUInt8);
constexpr Port kMaxInputs[] = {{"X", kMaxTypes, Arity::kRequired, 'T'}};
constexpr Port kMaxOutputs[] = {{"Y", kMaxTypes, Arity::kRequired, 'T'},
                                {"Indices", type_bit(DType::kInt64), Arity::kOptional}};
constexpr Port kAverageInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kAverageOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kMaxAttributes[] = {
    {"auto_pad", AttributeKind::kString}, {"ceil_mode", AttributeKind::kInt},
    {"dilations", AttributeKind::kInts},  {"kernel_shape", AttributeKind::kInts, true},
    {"pads", AttributeKind::kInts},       {"storage_order", AttributeKind::kInt},
    {"strides", AttributeKind::kInts}};
constexpr AttributeSpec kAverageAttributes[] = {{"auto_pad", AttributeKind::kString},
                                                {"ceil_mode", AttributeKind::kInt},
                                                {"count_include_pad", AttributeKind::kInt},
                                                {"dilations", AttributeKind::kInts},
                                                {"kernel_shape", AttributeKind::kInts, true},
                                                {"pads", AttributeKind::kInts},
                                                {"strides", AttributeKind::kInts}};

constexpr AttributeSpec kLpAttributes[] = {
    {"auto_pad", AttributeKind::kString}, {"ceil_mode", AttributeKind::kInt},
    {"dilations", AttributeKind::kInts},  {"kernel_shape", AttributeKind::kInts, true},
    {"p", AttributeKind::kInt},           {"pads", AttributeKind::kInts},
    {"strides", AttributeKind::kInts}};

Window window_of(const Attributes& attributes, const Shape& x) {
  return make_window(attributes, spatial_part(x, "input"), attributes.integers("kernel_shape", {}),
                     attributes.integer("ceil_mode", 0) != 0);
}

void infer(Inference& c) {
  const Shape& x = c.shape(0);
  const Shape y = window_of(c.attributes(), x).output_shape(x[0], x[1]);
  c.set_output(0, c.dtype(0), y);
  c.set_output(1, DType::kInt64, y);
}

// Calls f(plane, output index within the plane, z, y, x of the output) for all outputs.
template <typename F>
void each_output(const Evaluation& c, const Window& w, F&& f) {
  const Shape& x = c.inputs[0].shape();
  parallel(c.team, x[0] * x[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      int64_t at = 0;
      for (int64_t oz = 0; oz < w.output[0]; ++oz) {
        for (int64_t oy = 0; oy < w.output[1]; ++oy) {
          for (int64_t ox = 0; ox < w.output[2]; ++ox) f(plane, at++, oz, oy, ox);
        }
      }
    }
  });
}

// Calls f(z, y, x) for the taps of one output that lie inside the input. Kernels may be far larger
// than the image, so the taps outside it are not even looked at.
template <typename F>
void each_tap(const Window& w, int64_t oz, int64_t oy, int64_t ox, F&& f) {
  const auto tz = w.taps(0, oz), ty = w.taps(1, oy), tx = w.taps(2, ox);
  for (int64_t kz = tz.begin; kz < tz.end; ++kz) {
    for (int64_t ky = ty.begin; ky < ty.end; ++ky) {
      for (int64_t kx = tx.begin; kx < tx.end; ++kx) {
        f(w.source(0, oz, kz), w.source(1, oy, ky), w.source(2, ox, kx));
      }
    }
  }
}

// A window wholly in the padding yields the lowest value, with index 0. NaN wins over everything.
void evaluate_max(Evaluation& c) {
  const Window w = window_of(c.attributes, c.inputs[0].shape());
  const bool column_major = c.attributes.integer("storage_order", 0) != 0;
  with_type<kMaxTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[0]);
    T* y = data_of<T>(c.make_output(0));
    int64_t* indices = c.has_output(1) ? data_of<int64_t>(c.make_output(1)) : nullptr;
    each_output(c, w, [&](int64_t plane, int64_t at, int64_t oz, int64_t oy, int64_t ox) {
      const T* image = x + plane * w.input_size();
      T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                    : std::numeric_limits<T>::lowest();
      int64_t where = 0;
      bool first = true;
      each_tap(w, oz, oy, ox, [&](int64_t iz, int64_t iy, int64_t ix) {
        const T value = image[(iz * w.input[1] + iy) * w.input[2] + ix];
        if (!(first || value > best || (value != value && best == best))) return;
        first = false;
        best = value;
        where = column_major ? (ix * w.input[1] + iy) * w.input[0] + iz
                             : (iz * w.input[1] + iy) * w.input[2] + ix;
      });
      y[plane * w.output_size() + at] = best;
      if (indices != nullptr) {
        indices[plane * w.output_size() + at] = plane * w.input_size() + where;
      }
    });
  });
}

// Taps inside the padded input along one axis; what ceil_mode adds beyond the padding never counts.
int64_t padded_taps(const Window& w, int axis, int64_t o) {
  const int64_t room = w.input[axis] + w.pad_end[axis] - w.source(axis, o, 0);
  const int64_t fitting = (room + w.dilation[axis] - 1) / w.dilation[axis];
  return std::clamp<int64_t>(fitting, 0, w.kernel[axis]);
}

void evaluate_average(Evaluation& c) {
  const Window w = window_of(c.attributes, c.inputs[0].shape());
  const bool include_pad = c.attributes.integer("count_include_pad", 0) != 0;
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[0]);
    T* y = data_of<T>(c.make_output(0));
    each_output(c, w, [&](int64_t plane, int64_t at, int64_t oz, int64_t oy, int64_t ox) {
      const T* image = x + plane * w.input_size();
      double sum = 0;
      int64_t count = 0;
      each_tap(w, oz, oy, ox, [&](int64_t iz, int64_t iy, int64_t ix) {
        sum += static_cast<double>(image[(iz * w.input[1] + iy) * w.input[2] + ix]);
        ++count;
      });
      if (include_pad)
        count = padded_taps(w, 0, oz) * padded_taps(w, 1, oy) * padded_taps(w, 2, ox);
      y[plane * w.output_size() + at] = static_cast<T>(count == 0 ? 0 : sum / count);
    });
  });
}

void infer_lp(Inference& c) {
  if (c.attributes().integer("p", 2) < 1) {
    throw_invalid("p: expected a positive number, got {}", c.attributes().integer("p", 2));
  }
  infer(c);
}

void evaluate_lp(Evaluation& c) {
  const Window w = window_of(c.attributes, c.inputs[0].shape());
  const auto p = static_cast<double>(c.attributes.integer("p", 2));
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[0]);
    T* y = data_of<T>(c.make_output(0));
    each_output(c, w, [&](int64_t plane, int64_t at, int64_t oz, int64_t oy, int64_t ox) {
      const T* image = x + plane * w.input_size();
      double sum = 0;
      each_tap(w, oz, oy, ox, [&](int64_t iz, int64_t iy, int64_t ix) {
        const auto value = static_cast<double>(image[(iz * w.input[1] + iy) * w.input[2] + ix]);
        sum += std::pow(std::fabs(value), p);
      });
      y[plane * w.output_size() + at] = static_cast<T>(std::pow(sum, 1 / p));
    });
  });
}

// A comparison or addition per tap, those in the padding included.
double flops(const Graph& graph, const Node& node) {
  double sum = 1;
  for (int64_t dim : node.attributes.integers("kernel_shape", {})) sum *= static_cast<double>(dim);
  for (ValueId id : node.outputs) {
    if (id != kNone) return sum * static_cast<double>(element_count(*graph.value(id).shape));
  }
  return 0;
}

}  // namespace

const Operator kAveragePool{.name = "AveragePool",
                            .inputs = kAverageInputs,
                            .outputs = kAverageOutputs,
                            .attributes = kAverageAttributes,
                            .infer = infer,
                            .evaluate = evaluate_average,
                            .flops = flops};

const Operator kLpPool{.name = "LpPool",
                       .inputs = kAverageInputs,
                       .outputs = kAverageOutputs,
                       .attributes = kLpAttributes,
                       .infer = infer_lp,
                       .evaluate = evaluate_lp,
                       .flops = flops};

const Operator kMaxPool{.name = "MaxPool",
                        .inputs = kMaxInputs,
                        .outputs = kMaxOutputs,
                        .attributes = kMaxAttributes,
                        .infer = infer,
                        .evaluate = evaluate_max,
                        .flops = flops};

}  // namespace stretto::ir::ops
