// stretto.Attention: softmax(q k^T * scale + mask) v for every head (see ir/fused.h).
#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/matrix_product.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/strided.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"q", kRealTypes, Arity::kRequired, 'T'},
                            {"k", kRealTypes, Arity::kRequired, 'T'},
                            {"v", kRealTypes, Arity::kRequired, 'T'},
                            {"mask", kRealTypes, Arity::kOptional, 'T'},
                            {"starts", type_bit(DType::kInt32), Arity::kOptional}};
constexpr Port kOutputs[] = {{"y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {
    {"head_dim", AttributeKind::kInt, true}, {"heads", AttributeKind::kInt, true},
    {"k_offset", AttributeKind::kInt},       {"longest", AttributeKind::kInt},
    {"masked_zero", AttributeKind::kInt},    {"q_offset", AttributeKind::kInt},
    {"scale", AttributeKind::kFloat},        {"v_offset", AttributeKind::kInt}};
constexpr std::string_view kOffsets[] = {"q_offset", "k_offset", "v_offset"};

void infer(Inference& c) {
  const int64_t heads = c.attributes().integer("heads", 0);
  const int64_t head_dim = c.attributes().integer("head_dim", 0);
  if (heads < 1 || head_dim < 1 || heads > kMaxElements / head_dim) {
    throw_invalid("heads, head_dim: expected positive numbers, got {} and {}", heads, head_dim);
  }
  const bool heads_outside = c.rank(1) == 4;
  for (int i = 0; i < 3; ++i) {
    const Shape& shape = c.shape(i);
    if (heads_outside && i > 0) {
      if (shape.size() != 4 || shape[0] != c.shape(0)[0] || shape[1] < 1 || heads % shape[1] != 0 ||
          shape[1] != c.shape(1)[1] || shape[2] != c.shape(1)[2] || shape[3] != head_dim) {
        throw_invalid(
            "{}: expected shape [batch, heads, sequence, {}] that fits the others, got {}",
            kInputs[i].name, head_dim, shape_text(shape));
      }
      continue;
    }
    if (shape.size() != 3 || shape[0] != c.shape(0)[0] || shape[1] != c.shape(i == 0 ? 0 : 1)[1]) {
      throw_invalid("{}: expected shape [batch, sequence, columns] that fits the others, got {}",
                    kInputs[i].name, shape_text(shape));
    }
    const int64_t offset = c.attributes().integer(kOffsets[i], 0);
    if (offset < 0 || offset > shape[2] || heads * head_dim > shape[2] - offset) {
      throw_invalid("{}: {} heads of {} from column {} do not fit its {} columns", kInputs[i].name,
                    heads, head_dim, offset, shape[2]);
    }
  }
  if (c.has_input(4)) {
    const int64_t longest = c.attributes().integer("longest", 0);
    if (heads_outside || c.has_input(3) || c.shape(0)[0] != 1 || c.shape(0)[1] != c.shape(1)[1] ||
        c.rank(4) != 1 || c.shape(4)[0] < 1 || longest < 1) {
      throw_invalid(
          "starts: expected a list beside rows [1, rows, columns], no mask, and a longest sample "
          "of "
          "1 or more, got {}, q {}, k {} and {}",
          shape_text(c.shape(4)), shape_text(c.shape(0)), shape_text(c.shape(1)), longest);
    }
  }
  const Shape scores{c.shape(0)[0], heads, c.shape(0)[1], c.shape(1)[heads_outside ? 2 : 1]};
  if (c.has_input(3) && !broadcasts_to(c.shape(3), scores)) {
    throw_invalid("mask: expected a shape that broadcasts to {}, got {}", shape_text(scores),
                  shape_text(c.shape(3)));
  }
  c.set_output(0, c.dtype(0), {scores[0], scores[2], heads * head_dim});
}

// In place over rows of `size`; like Softmax, a row of -inf only becomes NaN, or zeros if `zeros`.
void softmax_rows(double* scores, int64_t rows, int64_t size, bool zeros, ThreadTeam* team) {
  parallel(team, rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      double* x = scores + row * size;
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t i = 0; i < size; ++i) top = std::fmax(top, x[i]);
      for (int64_t i = 0; i < size; ++i) sum += x[i] = std::exp(x[i] - top);
      if (zeros && !(sum > 0)) {
        std::fill_n(x, size, 0.0);
        continue;
      }
      for (int64_t i = 0; i < size; ++i) x[i] /= sum;
    }
  });
}

template <typename T>
void evaluate_as(Evaluation& c) {
  const Attributes& attributes = c.attributes;
  const int64_t heads = attributes.integer("heads", 0), dim = attributes.integer("head_dim", 0);
  const double scale = attributes.number("scale", 1 / std::sqrt(static_cast<double>(dim)));
  const bool heads_outside = c.inputs[1].rank() == 4, zeros = attributes.integer("masked_zero", 0);
  const int64_t batch = c.inputs[0].dim(0), sq = c.inputs[0].dim(1);
  const int64_t sk = c.inputs[1].dim(heads_outside ? 2 : 1);
  const int64_t columns = heads * dim;
  Tensor sums(DType::kFloat64, c.output_shapes[0]);
  // The rows of one operand that belong to one sequence and head.
  const auto rows = [&](int i, int64_t b, int64_t h) {
    const Tensor& x = c.inputs[i];
    if (heads_outside && i > 0) {
      return data_of<T>(x) + (b * x.dim(1) + h / (heads / x.dim(1))) * sk * dim;
    }
    return data_of<T>(x) + b * x.dim(1) * x.dim(2) + attributes.integer(kOffsets[i], 0) + h * dim;
  };
  const int64_t k_row = heads_outside ? dim : c.inputs[1].dim(2);
  const int64_t v_row = heads_outside ? dim : c.inputs[2].dim(2);
  const Shape all{batch, heads, sq, sk};
  const Strides mask = c.has_input(3) ? broadcast_strides(c.inputs[3].shape(), all) : Strides(4, 0);
  // A tensor and not a vector: its size is checked like any other's.
  Tensor scratch(DType::kFloat64, {sq, sk});
  const std::span<double> scores = scratch.mutable_values<double>();
  for (int64_t i = 0; i < batch * heads; ++i) {
    const int64_t b = i / heads, h = i % heads;
    std::fill(scores.begin(), scores.end(), 0.0);
    const Product qk{.m = sq,
                     .n = sk,
                     .k = dim,
                     .a = matrix_rows(rows(0, b, h), c.inputs[0].dim(2), 1),
                     .b = matrix_rows(rows(1, b, h), 1, k_row),
                     .c = scores.data(),
                     .row_stride = sk};
    accumulate_products({&qk, 1}, c.team);
    for (double& score : scores) score *= scale;
    if (c.has_input(3)) {
      const T* addend = data_of<T>(c.inputs[3]) + b * mask[0] + h * mask[1];
      for (int64_t r = 0; r < sq; ++r) {
        for (int64_t s = 0; s < sk; ++s) {
          scores[r * sk + s] += static_cast<double>(addend[r * mask[2] + s * mask[3]]);
        }
      }
    }
    softmax_rows(scores.data(), sq, sk, zeros, c.team);
    const Product pv{.m = sq,
                     .n = dim,
                     .k = sk,
                     .a = matrix_rows(static_cast<const double*>(scores.data()), sk, 1),
                     .b = matrix_rows(rows(2, b, h), v_row, 1),
                     .c = data_of<double>(sums) + b * sq * columns + h * dim,
                     .row_stride = columns};
    accumulate_products({&pv, 1}, c.team);
  }
  c.outputs[0] = std::is_same_v<T, double> ? sums : sums.converted(kDTypeOf<T>);
}

// Every sample by itself.
template <typename T>
void evaluate_ragged(Evaluation& c) {
  const std::vector<int64_t> starts = c.inputs[4].as_int64s();
  const int64_t rows = c.inputs[0].dim(1), longest = c.attributes.integer("longest", 0);
  Tensor& y = c.make_output(0);
  for (size_t b = 0; b + 1 < starts.size(); ++b) {
    const int64_t begin = std::clamp<int64_t>(starts[b], 0, rows);
    const int64_t end = std::clamp<int64_t>(starts[b + 1], begin, std::min(rows, begin + longest));
    if (begin == end) continue;
    std::vector<Tensor> inputs;
    for (int i = 0; i < 3; ++i) {
      const Tensor& x = c.inputs[i];
      inputs.emplace_back(x.dtype(), Shape{1, end - begin, x.dim(2)},
                          data_of<T>(x) + begin * x.dim(2), nullptr);
    }
    const Shape shape{1, end - begin, y.dim(2)};
    std::vector<Tensor> outputs(1);
    Evaluation one{.attributes = c.attributes,
                   .inputs = inputs,
                   .outputs = outputs,
                   .output_shapes = {&shape, 1},
                   .output_dtypes = c.output_dtypes,
                   .team = c.team};
    evaluate_as<T>(one);
    std::copy_n(data_of<T>(outputs[0]), outputs[0].count(), data_of<T>(y) + begin * y.dim(2));
  }
}

void evaluate(Evaluation& c) {
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    c.has_input(4) ? evaluate_ragged<T>(c) : evaluate_as<T>(c);
  });
}

double flops(const Graph& graph, const Node& node) {
  const Shape& y = *graph.value(node.outputs[0]).shape;
  const Shape& k = *graph.value(node.inputs[1]).shape;
  const auto rows = static_cast<double>(k[k.size() - 2]);
  const bool ragged = node.inputs.size() > 4 && node.inputs[4] != kNone;
  // Of samples as long as the longest.
  const double keys =
      ragged ? std::min(rows, static_cast<double>(node.attributes.integer("longest", 1))) : rows;
  return 4.0 * static_cast<double>(element_count(y)) * keys;
}

}  // namespace

const Operator kAttention{.name = "stretto.Attention",
                          .inputs = kInputs,
                          .outputs = kOutputs,
                          .attributes = kAttributes,
                          .infer = infer,
                          .evaluate = evaluate,
                          .flops = flops};

}  // namespace stretto::ir::ops
