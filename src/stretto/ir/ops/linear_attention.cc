// LinearAttention: a state per head that each step decays, corrects, adds a key-value product to,
// and reads with its query.
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {
    {"query", kRealTypes, Arity::kRequired, 'T'}, {"key", kRealTypes, Arity::kRequired, 'T'},
    {"value", kRealTypes, Arity::kRequired, 'T'}, {"past_state", kRealTypes, Arity::kOptional, 'S'},
    {"decay", kRealTypes, Arity::kOptional, 'T'}, {"beta", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kOutputs[] = {{"output", kRealTypes, Arity::kRequired, 'T'},
                             {"present_state", kRealTypes, Arity::kOptional, 'S'}};
constexpr AttributeSpec kAttributes[] = {{"chunk_size", AttributeKind::kInt},
                                         {"kv_num_heads", AttributeKind::kInt, true},
                                         {"q_num_heads", AttributeKind::kInt, true},
                                         {"scale", AttributeKind::kFloat},
                                         {"update_rule", AttributeKind::kString}};

struct Plan {
  int64_t batch, steps, q_heads, kv_heads, key, value;  // key, value: columns per head
  bool decays, corrects;
  double scale;
};

Plan plan_of(const Attributes& attributes, const Shape& q, const Shape& k, const Shape& v) {
  const std::string rule = attributes.text("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
    throw_invalid("update_rule: expected linear, gated, delta or gated_delta, got {}", rule);
  }
  const int64_t q_heads = attributes.integer("q_num_heads", 0);
  const int64_t kv_heads = attributes.integer("kv_num_heads", 0);
  const bool fits = q.size() == 3 && k.size() == 3 && v.size() == 3 && kv_heads > 0 &&
                    q_heads > 0 && q_heads % kv_heads == 0 && q[2] % q_heads == 0 &&
                    k[2] % kv_heads == 0 && v[2] % kv_heads == 0 &&
                    q[2] / q_heads == k[2] / kv_heads && q[0] == k[0] && k[0] == v[0] &&
                    q[1] == k[1] && k[1] == v[1];
  if (!fits) {
    throw_invalid("query, key, value: shapes {}, {} and {} do not fit {} and {} heads",
                  shape_text(q), shape_text(k), shape_text(v), q_heads, kv_heads);
  }
  const double scale = attributes.number("scale", 0);
  const int64_t key = k[2] / kv_heads;
  return {.batch = q[0],
          .steps = q[1],
          .q_heads = q_heads,
          .kv_heads = kv_heads,
          .key = key,
          .value = v[2] / kv_heads,
          .decays = rule == "gated" || rule == "gated_delta",
          .corrects = rule == "delta" || rule == "gated_delta",
          .scale = scale == 0 ? 1 / std::sqrt(static_cast<double>(key)) : scale};
}

void infer(Inference& c) {
  const Plan p = plan_of(c.attributes(), c.shape(0), c.shape(1), c.shape(2));
  const Shape state{p.batch, p.kv_heads, p.key, p.value};
  if (c.has_input(3) && c.shape(3) != state) {
    throw_invalid("past_state: expected shape {}, got {}", shape_text(state),
                  shape_text(c.shape(3)));
  }
  const auto check = [&](int input, bool needed, std::initializer_list<int64_t> columns) {
    if (!needed) return;
    if (!c.has_input(input)) {
      throw_invalid("{}: this update_rule needs it", kInputs[input].name);
    }
    for (int64_t count : columns) {
      if (c.shape(input) == Shape{p.batch, p.steps, count}) return;
    }
    throw_invalid("{}: shape {} does not fit", kInputs[input].name, shape_text(c.shape(input)));
  };
  check(4, p.decays, {p.kv_heads, p.kv_heads * p.key});
  check(5, p.corrects, {p.kv_heads, 1});
  c.set_output(0, c.dtype(0), {p.batch, p.steps, p.q_heads * p.value});
  c.set_output(1, c.has_input(3) ? c.dtype(3) : c.dtype(0), state);
}

void evaluate(Evaluation& c) {
  const Plan p =
      plan_of(c.attributes, c.inputs[0].shape(), c.inputs[1].shape(), c.inputs[2].shape());
  const std::vector<double> q = c.inputs[0].as_doubles(), k = c.inputs[1].as_doubles(),
                            v = c.inputs[2].as_doubles();
  const std::vector<double> decay = p.decays ? c.inputs[4].as_doubles() : std::vector<double>(),
                            beta = p.corrects ? c.inputs[5].as_doubles() : std::vector<double>();
  std::vector<double> states(static_cast<size_t>(p.batch * p.kv_heads * p.key * p.value), 0);
  if (c.has_input(3)) states = c.inputs[3].as_doubles();
  std::vector<double> y(static_cast<size_t>(p.batch * p.steps * p.q_heads * p.value));
  const int64_t decays = p.decays ? c.inputs[4].dim(2) / p.kv_heads : 0;
  const int64_t betas = p.corrects ? c.inputs[5].dim(2) : 0;
  const int64_t group = p.q_heads / p.kv_heads;
  std::vector<double> rows(static_cast<size_t>(p.batch * p.kv_heads * p.value));
  parallel(c.team, p.batch * p.kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t batch = at / p.kv_heads, head = at % p.kv_heads;
      double* state = states.data() + at * p.key * p.value;
      double* row = rows.data() + at * p.value;
      for (int64_t step = 0; step < p.steps; ++step) {
        const int64_t token = batch * p.steps + step;
        const double* key = k.data() + (token * p.kv_heads + head) * p.key;
        const double* value = v.data() + (token * p.kv_heads + head) * p.value;
        for (int64_t i = 0; i < p.key && p.decays; ++i) {
          const double g = decay[(token * p.kv_heads + head) * decays + (decays == 1 ? 0 : i)];
          for (int64_t j = 0; j < p.value; ++j) state[i * p.value + j] *= std::exp(g);
        }
        for (int64_t j = 0; j < p.value; ++j) {
          row[j] = value[j];
          if (!p.corrects) continue;
          for (int64_t i = 0; i < p.key; ++i) row[j] -= state[i * p.value + j] * key[i];
          row[j] *= beta[token * betas + (betas == 1 ? 0 : head)];
        }
        for (int64_t i = 0; i < p.key; ++i) {
          for (int64_t j = 0; j < p.value; ++j) state[i * p.value + j] += key[i] * row[j];
        }
        for (int64_t member = 0; member < group; ++member) {
          const int64_t reader = token * p.q_heads + head * group + member;
          for (int64_t j = 0; j < p.value; ++j) {
            double sum = 0;
            for (int64_t i = 0; i < p.key; ++i) {
              sum += q[reader * p.key + i] * state[i * p.value + j];
            }
            y[reader * p.value + j] = p.scale * sum;
          }
        }
      }
    }
  });
  c.outputs[0] = Tensor::of<double>(c.output_shapes[0], y).converted(c.output_dtypes[0]);
  if (c.has_output(1)) {
    c.outputs[1] = Tensor::of<double>(c.output_shapes[1], states).converted(c.output_dtypes[1]);
  }
}

double flops(const Graph& graph, const Node& node) {
  const auto elements = [&](size_t i) {
    return static_cast<double>(element_count(*graph.value(node.inputs[i]).shape));
  };
  const Shape& v = *graph.value(node.inputs[2]).shape;
  const auto heads = static_cast<double>(node.attributes.integer("kv_num_heads", 1));
  return 4 * (elements(0) + elements(1)) * static_cast<double>(v.back()) / heads;
}

}  // namespace

const Operator kLinearAttention{.name = "LinearAttention",
                                .inputs = kInputs,
                                .outputs = kOutputs,
                                .attributes = kAttributes,
                                .infer = infer,
                                .evaluate = evaluate,
                                .flops = flops};

}  // namespace stretto::ir::ops
