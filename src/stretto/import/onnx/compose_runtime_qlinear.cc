// Operators of ONNX Runtime on 8-bit tensors (its quantiser's format QOperator): the operator of
// floats between DequantizeLinear and QuantizeLinear. Products are sums of integers.
#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose_quantized.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

// Input i, one number, without axes.
Id one_number(Parts& parts, const PendingNode& node, size_t i) {
  check(node, node.has_input(i), fmt::format("input {} is missing", i));
  const Shape& shape = parts.shape(node.inputs[i]);
  check(node, element_count(shape) == 1,
        fmt::format("expected one number as input {} (a scale or zero point), got shape {}", i,
                    shape_text(shape)));
  return as_scalar(parts, node.inputs[i]);
}

// Input i, whose scale and zero point are the two inputs behind it.
Id dequantized(Parts& parts, const PendingNode& node, size_t i) {
  check(node, node.has_input(i), fmt::format("input {} is missing", i));
  std::vector<Id> inputs = {node.inputs[i], one_number(parts, node, i + 1)};
  if (node.has_input(i + 2)) inputs.push_back(one_number(parts, node, i + 2));
  return parts.op("DequantizeLinear", inputs);
}

// `y` with the scale in input i and the zero point behind it; of the type `dtype` where that has
// none.
Id quantized(Parts& parts, const PendingNode& node, Id y, size_t i, DType dtype) {
  const Id scale = one_number(parts, node, i);
  if (node.has_input(i + 1)) {
    return parts.op("QuantizeLinear", {y, scale, one_number(parts, node, i + 1)});
  }
  return parts.op("QuantizeLinear", {y, scale},
                  attribute("output_dtype", std::string(dtype_name(dtype))));
}

// op(a, b), of which each has a scale and a zero point behind it; then come those of the result.
void binary(PendingNode& node, std::string_view op) {
  enum Input : size_t { kA = 0, kB = 3, kC = 6 };
  Parts parts(node);
  const Id c = parts.op(op, {dequantized(parts, node, kA), dequantized(parts, node, kB)});
  node.results = {quantized(parts, node, c, kC, node.dtype(kA))};
}

// f(x) of one tensor, whose scale and zero point come first, then those of the result.
template <typename F>
void unary(PendingNode& node, F&& f) {
  Parts parts(node);
  const Id x = dequantized(parts, node, 0);
  node.results = {quantized(parts, node, f(parts, x), 3, node.dtype(0))};
}

// f(x) with channels in axis 1, of x that has them in its last one, and back.
template <typename F>
Id from_channels_last(Parts& parts, const PendingNode& node, Id x, F&& f) {
  const size_t rank = parts.shape(x).size();
  check(node, rank >= 3, "expected at least 3 dimensions");
  std::vector<int64_t> forth(rank), back(rank);
  for (size_t i = 0; i < rank; ++i) {
    forth[i] = static_cast<int64_t>(i < 2 ? i * (rank - 1) : i - 1);
    back[static_cast<size_t>(forth[i])] = static_cast<int64_t>(i);
  }
  return parts.transpose(f(parts.transpose(x, forth)), back);
}

// f(x) with channels in axis 1, wherever the node has them.
template <typename F>
Id with_channels_first(Parts& parts, const PendingNode& node, Id x, F&& f) {
  if (node.attributes.integer("channels_last", 0) == 0) return f(x);
  return from_channels_last(parts, node, x, f);
}

ir::Attributes without(ir::Attributes attributes, std::string_view name) {
  attributes.erase(name);
  return attributes;
}

}  // namespace

void compose_qlinear_add(PendingNode& node) { binary(node, "Add"); }

void compose_qlinear_mul(PendingNode& node) { binary(node, "Mul"); }

void compose_qlinear_sigmoid(PendingNode& node) {
  unary(node, [](Parts& parts, Id x) { return parts.op("Sigmoid", {x}); });
}

void compose_qlinear_leaky_relu(PendingNode& node) {
  const double alpha = node.attributes.number("alpha", 0.01f);
  unary(node,
        [&](Parts& parts, Id x) { return parts.op("LeakyRelu", {x}, attribute("alpha", alpha)); });
}

void compose_qlinear_softmax(PendingNode& node) {
  const int64_t opset = node.attributes.integer("opset", 13);
  unary(node, [&](Parts& parts, Id x) {
    const Shape shape = parts.shape(x);
    const auto rank = static_cast<int64_t>(shape.size());
    int64_t axis = node.attributes.integer("axis", -1);
    check(node, axis >= -rank && axis < rank, fmt::format("axis {} of rank {}", axis, rank));
    if (axis < 0) axis += rank;
    if (opset >= 13) return parts.op("Softmax", {x}, attribute("axis", axis));
    // Older ones are over all axes from that one on.
    const std::span<const int64_t> all(shape);
    x = parts.reshape(x, {element_count(all.subspan(0, axis)), element_count(all.subspan(axis))});
    return parts.reshape(parts.op("Softmax", {x}, attribute("axis", int64_t{1})), shape);
  });
}

void compose_qlinear_average_pool(PendingNode& node) {
  unary(node, [&](Parts& parts, Id x) {
    return with_channels_first(parts, node, x, [&](Id first) {
      return parts.op("AveragePool", {first}, without(node.attributes, "channels_last"));
    });
  });
}

void compose_nhwc_max_pool(PendingNode& node) {
  check(node, node.has_input(0), "expected X");
  Parts parts(node);
  node.results = {from_channels_last(parts, node, node.inputs[0], [&](Id first) {
    return parts.op("MaxPool", {first}, node.attributes);
  })};
}

void compose_qlinear_global_average_pool(PendingNode& node) {
  unary(node, [&](Parts& parts, Id x) {
    return with_channels_first(parts, node, x,
                               [&](Id first) { return parts.op("GlobalAveragePool", {first}); });
  });
}

void compose_qlinear_reduce_mean(PendingNode& node) {
  unary(node, [&](Parts& parts, Id x) {
    std::vector<int64_t> axes = node.attributes.integers("axes", {});
    for (size_t i = 0; axes.size() < parts.shape(x).size() && !node.attributes.has("axes"); ++i) {
      axes.push_back(static_cast<int64_t>(i));
    }
    return parts.reduce("ReduceMean", x, axes, node.attributes.integer("keepdims", 1) != 0);
  });
}

void compose_qlinear_concat(PendingNode& node) {
  constexpr size_t kFirst = 2;  // of the tensors, behind the result's scale and zero point
  check(node, node.inputs.size() > kFirst && (node.inputs.size() - kFirst) % 3 == 0,
        "expected a scale and a zero point, then the same and a tensor for each input");
  check(node, node.attributes.has("axis"), "attribute axis is missing");
  Parts parts(node);
  std::vector<Id> tensors;
  for (size_t i = kFirst; i < node.inputs.size(); i += 3) {
    tensors.push_back(dequantized(parts, node, i));
  }
  const Id y = parts.concat(tensors, node.attributes.integer("axis", 0));
  node.results = {quantized(parts, node, y, 0, node.dtype(kFirst))};
}

void compose_qlinear_where(PendingNode& node) {
  enum Input : size_t { kCondition = 0, kX = 1, kY = 4, kZ = 7 };
  expect_inputs(node, 9);
  Parts parts(node);
  const Id z = parts.op("Where", {node.inputs[kCondition], dequantized(parts, node, kX),
                                  dequantized(parts, node, kY)});
  node.results = {quantized(parts, node, z, kZ, node.dtype(kX))};
}

void compose_channels_last_qlinear_conv(PendingNode& node) {
  expect_inputs(node, 8);
  Parts parts(node);
  node.results = {with_channels_first(parts, node, node.inputs[0], [&](Id first) {
    PendingNode conv = node;
    conv.inputs[0] = first;
    conv.attributes.erase("channels_last");
    compose_qlinear_conv(conv);
    return conv.results[0];
  })};
}

void compose_qgemm(PendingNode& node) {
  enum Input : size_t { kA = 0, kB = 3, kC = 6, kY = 7 };
  expect_inputs(node, 6);
  check(node, node.has_input(kY) == node.has_input(kY + 1),
        "y_scale and y_zero_point must be given together");
  Parts parts(node);
  const auto matrix = [&](size_t i, std::string_view transposed) {
    check(node, parts.shape(node.inputs[i]).size() == 2, "expected A and B of 2 dimensions");
    return node.attributes.integer(transposed, 0) == 0 ? node.inputs[i]
                                                       : parts.transpose(node.inputs[i], {1, 0});
  };
  const Quantized a{matrix(kA, "transA"), one_number(parts, node, kA + 1),
                    one_number(parts, node, kA + 2)};
  const Quantized b{matrix(kB, "transB"), node.inputs[kB + 1], node.inputs[kB + 2]};
  const Id alpha = parts.number(node.attributes.number("alpha", 1), a.scale);
  const Id scale = parts.multiply(alpha, product_scale(parts, node, a, b));
  Id y = scaled_product(parts, node, a, b, scale);
  if (node.has_input(kC)) {  // in the scale of the sums
    y = parts.add(y, parts.multiply(parts.cast(node.inputs[kC], DType::kFloat32), scale));
  }
  node.results = {node.has_input(kY) ? quantized(parts, node, y, kY, node.dtype(kA)) : y};
}

}  // namespace stretto::onnx
