#include "stretto/kernels/attention/problem.h"

#include <algorithm>
#include <cmath>

#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {

using kernels::AttentionOperand;
using kernels::AttentionProblem;

bool lower_attention(Lowering& l, const ir::Node& node) {
  const ir::Attributes& a = node.attributes;
  const Shape& q = l.shape(node.inputs[0]);
  const Shape& k = l.shape(node.inputs[1]);
  const Shape& v = l.shape(node.inputs[2]);
  const Shape& y = l.shape(node.outputs[0]);
  if (!l.is_float32(node.outputs[0])) return false;

  AttentionProblem p{};
  p.target = l.target();
  p.batch = q[0];
  p.heads = p.kv_heads = a.integer("heads", 1);
  p.dim = p.dim_v = a.integer("head_dim", 1);
  p.sq = q[1];
  p.sk = k[k.size() - 2];
  p.masked_zero = a.integer("masked_zero", 0) != 0;
  p.scale = static_cast<float>(a.number("scale", 1 / std::sqrt(static_cast<double>(p.dim))));
  p.inputs = 0;
  const ir::ValueId starts = node.inputs.size() > 4 ? node.inputs[4] : ir::kNone;
  if (starts != ir::kNone) {
    if (q[1] == 0) return false;
    p.rows = q[1];
    p.batch = l.shape(starts)[0] - 1;
    p.sq = p.sk = std::min(p.rows, a.integer("longest", 1));
  }

  if (k.size() == 4) p.kv_heads = k[1];
  // A packed projection is one input that several operands read.
  std::vector<ir::ValueId> inputs;
  const auto operand = [&](ir::ValueId id, const Shape& rows, int64_t offset) {
    // What was appended lies in the memory of the cache, whose heads have more places.
    int64_t places = rows.size() == 4 ? rows[2] : 0;
    if (const ir::ValueId memory = rows.size() == 4 ? l.memory_of(id) : ir::kNone;
        memory != ir::kNone) {
      id = memory;
      places = l.shape(memory)[2];
    }
    const auto at = std::find(inputs.begin(), inputs.end(), id);
    const auto index = static_cast<int32_t>(at - inputs.begin());
    if (at == inputs.end()) {
      inputs.push_back(id);
      p.input_elements[p.inputs++] = element_count(l.shape(id));
    }
    if (rows.size() == 4) {
      return AttentionOperand{.input = index,
                              .strides = {rows[1] * places * p.dim, places * p.dim, p.dim, 1}};
    }
    return AttentionOperand{
        .input = index, .offset = offset, .strides = {rows[1] * rows[2], p.dim, rows[2], 1}};
  };
  p.q = operand(node.inputs[0], q, a.integer("q_offset", 0));
  p.k = operand(node.inputs[1], k, a.integer("k_offset", 0));
  p.v = operand(node.inputs[2], v, a.integer("v_offset", 0));
  p.out = {.strides = {y[1] * y[2], p.dim, y[2], 1}};
  p.out_elements = element_count(y);
  if (node.inputs.size() > 3 && node.inputs[3] != ir::kNone) {
    const Shape& mask = l.shape(node.inputs[3]);
    if (mask.size() > 4 || !l.is_float32(node.inputs[3])) return false;
    Shape full(4, 1);
    std::copy(mask.begin(), mask.end(), full.end() - static_cast<int64_t>(mask.size()));
    const auto strides = row_major_strides(full);
    p.has_mask = 1;
    p.mask.input = p.inputs;
    for (int i = 0; i < 4; ++i) p.mask.strides[i] = full[i] == 1 ? 0 : strides[i];
    inputs.push_back(node.inputs[3]);
    p.input_elements[p.inputs++] = element_count(full);
  }
  if (starts != ir::kNone) inputs.push_back(starts);
  const std::vector<Layout> plain(inputs.size(), Layout::kPlain);
  return l.add<AttentionProblem>(node, kernels::kAttention, inputs, {node.outputs[0]},
                                 {{p, plain, {Layout::kPlain}}});
}

}  // namespace stretto::runtime
