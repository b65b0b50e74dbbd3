#include <algorithm>

#include "stretto/kernels/gemm/candidates.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/recurrent/cpu/plan.h"

namespace stretto::kernels::recurrent {
namespace {

// What is packed for unit (block, lane) of a direction and a gate comes from this row of the
// direction's weights; -1: a padded unit.
int64_t source_row(const RecurrentProblem& p, const Plan& plan, int gate, int64_t block,
                   int64_t lane) {
  const int64_t unit = block * plan.lanes + lane;
  return unit < p.hidden ? gate * p.hidden + unit : -1;
}

// Calls f(column, direction, row) for every column of the inputs' product.
template <typename F>
void each_column(const RecurrentProblem& p, const Plan& plan, F&& f) {
  int64_t column = 0;
  for (int64_t d = 0; d < p.directions; ++d) {
    for (int64_t block = 0; block < plan.blocks; ++block) {
      for (int gate = 0; gate < p.gates(); ++gate) {
        for (int64_t lane = 0; lane < plan.lanes; ++lane) {
          f(column++, d, source_row(p, plan, gate, block, lane));
        }
      }
    }
  }
}

// Both biases, but for that of the state where it belongs to what GRU's reset gate acts on.
void pack_product(const RecurrentProblem& p, const Plan& plan, std::span<const float> weight,
                  std::span<const float> bias, float* packed) {
  const int64_t rows = p.gates() * p.hidden;
  Tensor columns(DType::kFloat32, {plan.product.n, p.inputs});
  Tensor sums(DType::kFloat32, {plan.product.n});
  each_column(p, plan, [&](int64_t column, int64_t d, int64_t row) {
    if (row < 0) return;
    std::copy_n(weight.begin() + (d * rows + row) * p.inputs, p.inputs,
                columns.mutable_values<float>().begin() + column * p.inputs);
    if (bias.empty()) return;
    const bool later = p.linear_before_reset && row >= 2 * p.hidden;
    const float of_state = later ? 0 : bias[2 * d * rows + rows + row];
    sums.mutable_values<float>()[column] = bias[2 * d * rows + row] + of_state;
  });
  const std::vector<Tensor> constants{std::move(columns), std::move(sums)};
  gemm::kPacked.pack(plan.product, constants, reinterpret_cast<std::byte*>(packed));
}

}  // namespace

std::string packing(const RecurrentProblem& p) {
  const Plan plan = make_plan(p);
  return packing_text("recurrent_steps", 1, plan.lanes) + "+" + gemm::kPacked.packing(plan.product);
}

size_t packed_bytes(const RecurrentProblem& p) {
  return static_cast<size_t>(make_plan(p).packed_end) * sizeof(float);
}

void pack(const RecurrentProblem& p, std::span<const Tensor> constants, std::byte* bytes) {
  const Plan plan = make_plan(p);
  float* packed = reinterpret_cast<float*>(bytes);
  std::fill_n(packed, plan.packed_end, 0.0f);
  const int64_t rows = p.gates() * p.hidden;
  const auto recurrent = constants[1].values<float>();
  const auto bias = p.bias ? constants[2].values<float>() : std::span<const float>();
  pack_product(p, plan, constants[0].values<float>(), bias, packed);
  for (int i = 0; i < plan.parts; ++i) {
    const Part& part = plan.part[i];
    float* out = packed + part.weights;
    for (int64_t d = 0; d < p.directions; ++d) {
      for (int64_t first = 0; first < plan.blocks; first += part.panel_blocks) {
        const int64_t last = std::min(first + part.panel_blocks, plan.blocks);
        for (int64_t k = 0; k < p.hidden; ++k) {
          for (int64_t block = first; block < last; ++block) {
            for (int gate = part.first; gate < part.first + part.gates; ++gate) {
              for (int64_t lane = 0; lane < plan.lanes; ++lane, ++out) {
                const int64_t row = source_row(p, plan, gate, block, lane);
                if (row >= 0) *out = recurrent[(d * rows + row) * p.hidden + k];
              }
            }
          }
        }
      }
    }
  }
  if (p.linear_before_reset && p.bias) {
    each_column(p, plan, [&](int64_t column, int64_t d, int64_t row) {
      if (row >= 2 * p.hidden) packed[plan.state_bias + column] = bias[2 * d * rows + rows + row];
    });
  }
  if (!p.peephole) return;
  const auto peephole = constants[p.bias ? 3 : 2].values<float>();
  for (int64_t i = 0; i < 3 * p.directions; ++i) {
    std::copy_n(peephole.begin() + i * p.hidden, p.hidden, packed + plan.peephole + i * plan.width);
  }
}

}  // namespace stretto::kernels::recurrent
