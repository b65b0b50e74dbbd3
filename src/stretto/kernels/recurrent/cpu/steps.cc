// The inputs of all steps are one matrix product. Then every step is a phase: the state times the
// recurrent weights, a panel at a time, whose sums are all gates of some units, so that they become
// the new state while they are in the first-level cache: the products of as many panels as leave
// their sums there, then their gates, so that these overlap one another. Threads share the units,
// and each keeps those of its share, with their weights, for all steps.
//
// The limit with few rows is the rate at which the weights come from the cache that holds them
// (docs/design/recurrent.md). One row therefore has a product of its own: twice as many sums as a
// tile, so that none waits for itself, and weights fetched ahead of their use from panel to panel.
#include "stretto/kernels/recurrent/candidates.h"
#include "stretto/kernels/recurrent/cpu/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/recurrent/cpu/steps.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/activation-inl.h"

#ifndef STRETTO_KERNELS_RECURRENT_STEPS_
#define STRETTO_KERNELS_RECURRENT_STEPS_
namespace stretto::kernels::recurrent {

// Blocks of units of one row of the batch, from the first on; all memory is padded to whole
// vectors.
struct Block {
  const float* sums;   // what the state adds to the gates of this part
  float* inputs;       // what the inputs add to all gates
  const float* state;  // before the step
  float *next, *cell, *reset;
  const float* peephole;  // of i, o, f, `width` apart; null: none
  int64_t width;
};

}  // namespace stretto::kernels::recurrent
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace recurrent_steps {

using recurrent::Block;
using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

// Function `index` of a direction.
HWY_INLINE V apply(const RecurrentFunction* functions, int index, V x) {
  const Tag d;
  const RecurrentFunction& f = functions[index];
  return activate(d, f.activation, hn::Set(d, f.alpha), hn::Set(d, f.beta), x);
}

// The same of the sum of a gate.
HWY_INLINE V apply(const RecurrentProblem& p, const RecurrentFunction* functions, int index,
                   V sum) {
  const Tag d;
  if (p.clips) sum = at_most(hn::Set(d, p.clip), at_least(hn::Set(d, -p.clip), sum));
  return apply(functions, index, sum);
}

// Gate `index` of this part, which is gate `of_cell` of the cell.
HWY_INLINE V gate(const Block& b, int index, int of_cell) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  return hn::Add(hn::Load(d, b.sums + index * lanes), hn::Load(d, b.inputs + of_cell * lanes));
}

HWY_INLINE V with_peephole(const Block& b, int index, V cell, V sum) {
  if (b.peephole == nullptr) return sum;
  return hn::MulAdd(hn::Load(Tag(), b.peephole + index * b.width), cell, sum);
}

void lstm(const RecurrentProblem& p, const RecurrentFunction* f, const Block& b) {
  const Tag d;
  const V cell = hn::Load(d, b.cell);
  const V input = apply(p, f, 0, with_peephole(b, 0, cell, gate(b, 0, 0)));
  const V forget = p.input_forget ? hn::Sub(hn::Set(d, 1.0f), input)
                                  : apply(p, f, 0, with_peephole(b, 2, cell, gate(b, 2, 2)));
  const V fresh = apply(p, f, 1, gate(b, 3, 3));
  const V updated = hn::MulAdd(forget, cell, hn::Mul(input, fresh));
  hn::Store(updated, d, b.cell);
  const V output = apply(p, f, 0, with_peephole(b, 1, updated, gate(b, 1, 1)));
  hn::Store(hn::Mul(output, apply(f, 2, updated)), d, b.next);
}

// An LSTM without peepholes, clipping and functions of its own.
bool usual_lstm(const RecurrentProblem& p, const RecurrentFunction* f) {
  return !p.peephole && !p.clips && !p.input_forget && f[0].activation == Activation::kSigmoid &&
         f[1].activation == Activation::kTanh && f[2].activation == Activation::kTanh;
}

// One block of it: what lstm() computes, in so few instructions that neighbours overlap.
HWY_INLINE void lstm_block(const float* HWY_RESTRICT sums, const float* HWY_RESTRICT inputs,
                           float* HWY_RESTRICT cell, float* HWY_RESTRICT next) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto gate = [&](int64_t index) HWY_ATTR {
    return hn::Add(hn::Load(d, sums + index * lanes), hn::Load(d, inputs + index * lanes));
  };
  const V input = fast_sigmoid(d, gate(0)), output = fast_sigmoid(d, gate(1));
  const V forget = fast_sigmoid(d, gate(2)), fresh = fast_tanh(d, gate(3));
  const V updated = hn::MulAdd(forget, hn::Load(d, cell), hn::Mul(input, fresh));
  hn::Store(updated, d, cell);
  hn::Store(hn::Mul(output, fast_tanh(d, updated)), d, next);
}

// (1 - z) fresh + z state: infinities meet as in the formula.
HWY_INLINE void store_gru(const Block& b, V z, V fresh) {
  const Tag d;
  const V kept = hn::Mul(z, hn::Load(d, b.state));
  hn::Store(hn::MulAdd(hn::Sub(hn::Set(d, 1.0f), z), fresh, kept), d, b.next);
}

void gru(const RecurrentProblem& p, const RecurrentFunction* f, int part, const Block& b) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (p.linear_before_reset) {
    const V z = apply(p, f, 0, gate(b, 0, 0)), r = apply(p, f, 0, gate(b, 1, 1));
    const V inputs = hn::Load(d, b.inputs + 2 * lanes);
    store_gru(b, z, apply(p, f, 1, hn::MulAdd(r, hn::Load(d, b.sums + 2 * lanes), inputs)));
  } else if (part == 0) {
    const V r = apply(p, f, 0, gate(b, 1, 1));
    hn::Store(hn::Mul(r, hn::Load(d, b.state)), d, b.reset);
    // The update gate waits where the sum of its inputs was.
    hn::Store(apply(p, f, 0, gate(b, 0, 0)), d, b.inputs);
  } else {
    store_gru(b, hn::Load(d, b.inputs), apply(p, f, 1, gate(b, 0, 2)));
  }
}

void rnn(const RecurrentProblem& p, const RecurrentFunction* f, const Block& b) {
  hn::Store(apply(p, f, 0, gate(b, 0, 0)), Tag(), b.next);
}

// Calls `finish` for `count` blocks of one row.
template <class F>
HWY_INLINE void each_block(const RecurrentProblem& p, int gates, Block b, int64_t count,
                           const F& finish) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  const auto step = [lanes](auto*& pointer) {
    if (pointer != nullptr) pointer += lanes;
  };
  for (int64_t i = 0; i < count; ++i) {
    finish(b);
    b.sums += gates * lanes;
    b.inputs += p.gates() * lanes;
    b.state += lanes;
    b.next += lanes;
    step(b.cell);
    step(b.reset);
    step(b.peephole);
  }
}

// Weights are fetched so many floats ahead: about the latency of the last-level cache.
constexpr int64_t kAhead = 1024, kLine = 16;

// One row: sums[v] = init[v] + sum over k of state[k] * weights[k][v], of kVectors vectors each.
template <int kVectors>
void multiply_row(const float* HWY_RESTRICT state, int64_t steps, const float* HWY_RESTRICT weights,
                  const float* init, float* HWY_RESTRICT sums) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V even[kVectors], odd[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    even[v] = init == nullptr ? hn::Zero(d) : hn::Load(d, init + v * lanes);
    odd[v] = hn::Zero(d);
  }
  int64_t k = 0;
  for (; k + 2 <= steps; k += 2, weights += 2 * kVectors * lanes) {
    for (int64_t line = 0; line < 2 * kVectors * lanes; line += kLine) {
      __builtin_prefetch(weights + kAhead + line);
    }
    const V first = hn::Set(d, state[k]), second = hn::Set(d, state[k + 1]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      even[v] = hn::MulAdd(first, hn::Load(d, weights + v * lanes), even[v]);
      odd[v] = hn::MulAdd(second, hn::Load(d, weights + (kVectors + v) * lanes), odd[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    if (k < steps) {
      const V last = hn::Set(d, state[k]);
      even[v] = hn::MulAdd(last, hn::Load(d, weights + v * lanes), even[v]);
    }
    hn::Store(hn::Add(even[v], odd[v]), d, sums + v * lanes);
  }
}

}  // namespace recurrent_steps

void recurrent_row(int vectors, const float* state, int64_t steps, const float* weights,
                   const float* init, float* sums) {
  using namespace recurrent_steps;
  switch (vectors) {
    case 1:
      return multiply_row<1>(state, steps, weights, init, sums);
    case 2:
      return multiply_row<2>(state, steps, weights, init, sums);
    case 3:
      return multiply_row<3>(state, steps, weights, init, sums);
    default:
      return multiply_row<4>(state, steps, weights, init, sums);
  }
}

void recurrent_blocks(const RecurrentProblem& p, const RecurrentFunction* functions, int part,
                      int gates, const recurrent::Block& first, int64_t count) {
  using namespace recurrent_steps;
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (p.cell == RecurrentCell::kRnn)
    return each_block(p, gates, first, count, [&](const Block& b) { rnn(p, functions, b); });
  if (p.cell == RecurrentCell::kGru)
    return each_block(p, gates, first, count, [&](const Block& b) { gru(p, functions, part, b); });
  if (!usual_lstm(p, functions))
    return each_block(p, gates, first, count, [&](const Block& b) { lstm(p, functions, b); });
  for (int64_t i = 0; i < count; ++i) {
    lstm_block(first.sums + 4 * i * lanes, first.inputs + 4 * i * lanes, first.cell + i * lanes,
               first.next + i * lanes);
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "stretto/kernels/gemm/candidates.h"
#include "stretto/kernels/weights.h"

namespace stretto::kernels::recurrent {
namespace {

// The program that runs a model has an entry per phase.
constexpr int64_t kMostSteps = 1 << 20;

Fit fits(const RecurrentProblem& p) {
  if (p.steps < 1 || p.batch < 1 || p.inputs < 1 || p.hidden < 1) return Fit::no("empty");
  if (p.steps > kMostSteps) return Fit::no("more than a million steps");
  const double useful = static_cast<double>(p.hidden) / static_cast<double>(make_plan(p).width);
  return Fit::yes(0.9 * useful * weight_reuse(p.target, static_cast<double>(p.batch), 2));
}

size_t scratch_bytes(const RecurrentProblem& p) {
  return static_cast<size_t>(make_plan(p).scratch_end) * sizeof(float);
}

int phases(const RecurrentProblem& p) { return static_cast<int>(1 + p.steps * make_plan(p).parts); }

// Where things are in one phase.
struct Phase {
  const RecurrentProblem& p;
  const Plan& plan;
  const RecurrentArgs& a;
  const float* packed;
  float *scratch, *sums;
  int64_t step;
  int part;

  // The state of a row of the batch before the step, and after it.
  float* state(int64_t direction, int64_t row, bool after) const {
    const int64_t turn = (step + (after ? 1 : 0)) % 2;
    return scratch + plan.states + ((turn * p.directions + direction) * p.batch + row) * plan.row;
  }
  float* cell(int64_t direction, int64_t row) const {
    if (p.cell != RecurrentCell::kLstm) return nullptr;
    return scratch + plan.cells + (direction * p.batch + row) * plan.row;
  }
  float* reset(int64_t direction, int64_t row) const {
    return plan.parts == 1 ? nullptr
                           : scratch + plan.resets + (direction * p.batch + row) * plan.row;
  }
  float* inputs(int64_t time, int64_t direction, int64_t row, int64_t block) const {
    return scratch + p.x_row(time, row) * plan.product.n +
           (direction * plan.blocks + block) * p.gates() * plan.lanes;
  }
  bool last_part() const { return part + 1 == plan.parts; }
};

void begin(const Phase& at, const Worker& worker) {
  const RecurrentProblem& p = at.p;
  const Range range = split(p.directions * p.batch, worker);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t d = i / p.batch, row = i % p.batch, from = p.state_row(d, row) * p.hidden;
    const auto fill = [&](float* to, const float* initial) {
      std::fill_n(to, at.plan.row, 0.0f);
      if (initial != nullptr) std::copy_n(initial + from, p.hidden, to);
    };
    fill(at.state(d, row, false), at.a.initial_h);
    if (float* cell = at.cell(d, row)) fill(cell, at.a.initial_c);
  }
}

// The results of `blocks` blocks of units of a row of the batch.
void write(const Phase& at, int64_t direction, int64_t row, int64_t block, int64_t blocks,
           int64_t time, bool runs) {
  const RecurrentProblem& p = at.p;
  const int64_t first = block * at.plan.lanes;
  const int64_t count = std::min(blocks * at.plan.lanes, p.hidden - first);
  const float* next = at.state(direction, row, true) + first;
  if (at.a.y != nullptr) {
    float* y = at.a.y + p.y_row(time, direction, row) * p.hidden + first;
    runs ? (void)std::copy_n(next, count, y) : (void)std::fill_n(y, count, 0.0f);
  }
  if (at.step + 1 < p.steps) return;
  const int64_t state = p.state_row(direction, row) * p.hidden + first;
  if (at.a.y_h != nullptr) std::copy_n(next, count, at.a.y_h + state);
  if (at.a.y_c != nullptr) std::copy_n(at.cell(direction, row) + first, count, at.a.y_c + state);
}

// One row of the batch: what the sums make of `blocks` blocks of units from `first` on.
void finish_row(const Phase& at, int64_t direction, int64_t row, int64_t first, int64_t blocks,
                const float* sums) {
  const RecurrentProblem& p = at.p;
  const Plan& plan = at.plan;
  const int64_t length = at.a.length(p, row);
  const bool runs = at.step < length;
  const int64_t time = runs && p.reverse[direction] ? length - 1 - at.step : at.step;
  const int64_t offset = first * plan.lanes;
  const auto from = [&](float* base) { return base == nullptr ? nullptr : base + offset; };
  const Block block{
      .sums = sums,
      .inputs = at.inputs(time, direction, row, first),
      .state = from(at.state(direction, row, false)),
      .next = from(at.state(direction, row, true)),
      .cell = from(at.cell(direction, row)),
      .reset = from(at.reset(direction, row)),
      .peephole =
          p.peephole ? at.packed + plan.peephole + direction * 3 * plan.width + offset : nullptr,
      .width = plan.width};
  if (runs) {
    STRETTO_ISA_SELECT(p.target.isa, recurrent_blocks)
    (p, p.functions[direction], at.part, plan.part[at.part].gates, block, blocks);
  } else if (at.last_part()) {
    std::copy_n(block.state, blocks * plan.lanes, block.next);
  }
  if (at.last_part()) write(at, direction, row, first, blocks, time, runs);
}

// A panel of one direction.
struct PanelPart {
  int64_t direction, first, blocks;  // of units
  int vectors;
  const float *weights, *bias;  // bias of the state; null: none
};

PanelPart panel_at(const Phase& at, int64_t item) {
  const Plan& plan = at.plan;
  const Part& part = plan.part[at.part];
  const int64_t direction = item / part.panels, first = item % part.panels * part.panel_blocks;
  const int64_t blocks = std::min(part.panel_blocks, plan.blocks - first);
  return {.direction = direction,
          .first = first,
          .blocks = blocks,
          .vectors = static_cast<int>(blocks * part.gates),
          .weights = at.packed + part.weights + direction * part.direction_weights +
                     first * part.gates * plan.lanes * at.p.hidden,
          .bias = at.p.linear_before_reset
                      ? at.packed + plan.state_bias +
                            (direction * plan.blocks + first) * part.gates * plan.lanes
                      : nullptr};
}

// What the state is multiplied from.
const float* factor(const Phase& at, int64_t direction, int64_t row) {
  return at.part == 0 ? at.state(direction, row, false) : at.reset(direction, row);
}

// The sums of a panel for `rows` rows of the batch from `begin` on, `sum_row` apart.
void multiply(const Phase& at, const PanelPart& panel, int64_t begin, int64_t rows, float* sums,
              int64_t sum_row) {
  if (at.p.batch == 1) {
    STRETTO_ISA_SELECT(at.p.target.isa, recurrent_row)
    (panel.vectors, factor(at, panel.direction, 0), at.p.hidden, panel.weights, panel.bias, sums);
    return;
  }
  const TileSet& set = tile_set(at.p.target.isa);
  Tile tile;
  tile.taps = &kNoTap;
  tile.a_row = at.plan.row;
  tile.steps = tile.last_steps = static_cast<int32_t>(at.p.hidden);
  tile.b = panel.weights;
  tile.bias = panel.bias;
  tile.c_row = sum_row;
  tile.c_vector = at.plan.lanes;
  const EvenTiles tiles(rows, rows_in_l1(set.max_rows[panel.vectors], at.plan.row));
  for (int64_t t = 0; t < tiles.tiles; ++t) {
    tile.a = factor(at, panel.direction, begin + tiles.begin(t));
    tile.c = sums + tiles.begin(t) * sum_row;
    set.run[panel.vectors][tiles.begin(t + 1) - tiles.begin(t)](tile);
  }
}

// A group of panels at a time: their products, then their gates.
void run_panels(const Phase& at, const Range& items) {
  const Part& part = at.plan.part[at.part];
  for (int64_t item = items.begin, end = item; item < items.end; item = end) {
    const PanelPart first = panel_at(at, item);
    end = std::min({items.end, item + part.group, (first.direction + 1) * part.panels});
    const PanelPart last = panel_at(at, end - 1);
    const int64_t blocks = last.first + last.blocks - first.first;
    const int64_t width = blocks * part.gates * at.plan.lanes;
    if (at.p.batch == 1) {  // other threads wrote most of the state
      const float* state = factor(at, first.direction, 0);
      for (int64_t i = 0; i < at.p.hidden; i += at.plan.lanes) __builtin_prefetch(state + i);
    }
    const EvenTiles rows(at.p.batch, static_cast<int>(at.plan.sum_rows));
    for (int64_t r = 0; r < rows.tiles; ++r) {
      const int64_t begin = rows.begin(r), count = rows.begin(r + 1) - begin;
      float* sums = at.sums;
      for (int64_t i = item; i < end; ++i) {
        const PanelPart panel = panel_at(at, i);
        multiply(at, panel, begin, count, sums, width);
        sums += panel.vectors * at.plan.lanes;
      }
      for (int64_t row = 0; row < count; ++row) {
        finish_row(at, first.direction, begin + row, first.first, blocks, at.sums + row * width);
      }
    }
  }
}

void run(const RecurrentProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  const RecurrentArgs a = recurrent_args(p, args);
  float* scratch = reinterpret_cast<float*>(args.scratch);
  const int step = worker.phase == 0 ? 0 : worker.phase - 1;
  const Phase at{.p = p,
                 .plan = plan,
                 .a = a,
                 .packed = reinterpret_cast<const float*>(args.packed),
                 .scratch = scratch,
                 .sums = scratch + plan.sums + worker.thread * plan.thread_sums,
                 .step = step / plan.parts,
                 .part = step % plan.parts};
  if (worker.phase == 0) {
    const void* const inputs[] = {a.x};
    void* const outputs[] = {scratch};
    gemm::kPacked.run(plan.product, {.inputs = inputs, .outputs = outputs, .packed = args.packed},
                      worker);
    begin(at, worker);
    return;
  }
  const Range items = split(p.directions * plan.part[at.part].panels, worker);
  run_panels(at, items);
}

}  // namespace

const Row kSteps{.name = "steps",
                 .fits = fits,
                 .packed_bytes = packed_bytes,
                 .pack = pack,
                 .packing = packing,
                 .scratch_bytes = scratch_bytes,
                 .phases = phases,
                 .run = run};

}  // namespace stretto::kernels::recurrent
#endif
