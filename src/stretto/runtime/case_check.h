// For the test of drawn cases (cases_test.cc): a graph through the lowering, then through every
// variant of every step and every kernel that takes it, one forced after the other.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/ir/cases.h"
#include "stretto/ir/interpreter.h"
#include "stretto/runtime/lowering/lowering.h"

namespace stretto::runtime {

// --- Tensors in a layout's memory. Written without the kernels' own helpers.

// Calls f(offset in storage, offset in the dense tensor) for every element.
inline void each_element(const Shape& shape, Layout layout, int64_t block, auto&& f) {
  if (layout == Layout::kPlain) {
    for (int64_t i = 0; i < element_count(shape); ++i) f(i, i);
    return;
  }
  const int64_t channels = shape[1], plane = shape[2] * shape[3];
  const int64_t blocks = (channels + block - 1) / block;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    const int64_t pixel = i % plane, c = i / plane % channels, n = i / plane / channels;
    f(((n * blocks + c / block) * plane + pixel) * block + c % block, i);
  }
}

struct Stored {
  std::shared_ptr<std::byte[]> data;
  size_t bytes = 0;
};

// Memory of its own whose bytes are all `filler`: 0xff is NaN, and 0x7f a float that no case holds.
inline Stored filled(size_t bytes, int filler) {
  Stored stored{allocate(bytes), bytes};
  if (bytes > 0) std::memset(stored.data.get(), filler, bytes);
  return stored;
}

inline Stored new_storage(const Shape& shape, DType dtype, Layout layout, int block, int filler) {
  const auto count = static_cast<size_t>(storage_elements(shape, layout, block));
  return filled(count * dtype_bytes(dtype), filler);
}

// NaN in padding lanes: no kernel may let them into a real one.
inline Stored stored(const Tensor& tensor, Layout layout, int block) {
  Stored to = new_storage(tensor.shape(), tensor.dtype(), layout, block, 0xff);
  const auto* from = static_cast<const std::byte*>(tensor.data());
  const size_t width = dtype_bytes(tensor.dtype());
  each_element(tensor.shape(), layout, block, [&](int64_t at, int64_t i) {
    std::memcpy(to.data.get() + static_cast<size_t>(at) * width,
                from + static_cast<size_t>(i) * width, width);
  });
  return to;
}

inline Tensor loaded(const Stored& from, const Shape& shape, DType dtype, Layout layout,
                     int block) {
  Tensor tensor(dtype, shape);
  auto* to = static_cast<std::byte*>(tensor.mutable_data());
  const size_t width = dtype_bytes(dtype);
  each_element(shape, layout, block, [&](int64_t at, int64_t i) {
    std::memcpy(to + static_cast<size_t>(i) * width,
                from.data.get() + static_cast<size_t>(at) * width, width);
  });
  return tensor;
}

// --- Running steps

// Which kernel a step is made to run.
struct Forced {
  size_t step = 0, variant = 0;
  int row = 0;
};

class StepRunner {
 public:
  StepRunner(const Lowered& lowered, const kernels::Target& target, ThreadTeam& team)
      : lowered_(lowered), block_(target.block()), team_(team) {}

  // Outputs in graph order. Steps other than the forced one take their first variant and their
  // family's reference.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Forced& forced) {
    const ir::Graph& graph = *lowered_.graph;
    values_.assign(graph.values.size(), Tensor());
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph.inputs[i]] = inputs[i];
    for (size_t s = 0; s < lowered_.steps.size(); ++s) {
      const Step& step = lowered_.steps[s];
      const Variant& variant = step.variants[s == forced.step ? forced.variant : 0];
      const int row = s == forced.step || step.family == nullptr
                          ? forced.row
                          : reference_row(*step.family, variant);
      run_step(step, variant, row);
    }
    std::vector<Tensor> outputs;
    for (ir::ValueId id : graph.outputs) outputs.push_back(value(id));
    return outputs;
  }

 private:
  static int reference_row(const kernels::Family& family, const Variant& variant) {
    return family.fits(family.reference, variant.problem.data()).ok
               ? family.reference
               : kernels::default_row(family, variant.problem.data());
  }

  const Tensor& value(ir::ValueId id) const {
    const ir::Value& v = lowered_.graph->value(id);
    return v.is_constant() ? v.constant : values_[id];
  }

  std::vector<Stored> store_inputs(const Step& step, const Variant& variant) const {
    std::vector<Stored> list;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      list.push_back(stored(value(step.inputs[i]), variant.inputs[i], block_));
    }
    return list;
  }

  void take(ir::ValueId id, const Stored& from, Layout layout) {
    const ir::Value& v = lowered_.graph->value(id);
    const size_t needed =
        static_cast<size_t>(storage_elements(*v.shape, layout, block_)) * dtype_bytes(v.dtype);
    STRETTO_CHECK(needed <= from.bytes, "{}: {} bytes of {} lie beyond its memory", v.name,
                  needed - from.bytes, needed);
    values_[id] = loaded(from, *v.shape, v.dtype, layout, block_);
  }

  void run_step(const Step& step, const Variant& variant, int row) {
    switch (step.kind) {
      case StepKind::kKernel:
        return run_kernel(step, variant, row);
      case StepKind::kView: {
        const Stored from = store_inputs(step, variant)[0];
        const size_t offset = static_cast<size_t>(step.view_offset) *
                              dtype_bytes(lowered_.graph->value(step.outputs[0]).dtype);
        STRETTO_CHECK(offset <= from.bytes, "view starts at byte {} of {}", offset, from.bytes);
        // Aliases the same memory.
        const std::shared_ptr<std::byte[]> part(from.data, from.data.get() + offset);
        return take(step.outputs[0], {part, from.bytes - offset}, variant.outputs[0]);
      }
      case StepKind::kJoin: {
        size_t bytes = 0;
        const std::vector<Stored> parts = store_inputs(step, variant);
        for (const Stored& part : parts) bytes += part.bytes;
        const Stored joined = filled(bytes, 0x7f);
        size_t at = 0;
        for (const Stored& part : parts) {
          if (part.bytes > 0) std::memcpy(joined.data.get() + at, part.data.get(), part.bytes);
          at += part.bytes;
        }
        return take(step.outputs[0], joined, variant.outputs[0]);
      }
      case StepKind::kInterpret: {
        std::vector<Tensor> arguments;
        for (ir::ValueId id : step.node->inputs) {
          arguments.push_back(id == ir::kNone ? Tensor() : value(id));
        }
        const auto results = ir::evaluate(*lowered_.graph, *step.node, arguments);
        for (size_t i = 0; i < results.size(); ++i) {
          if (step.node->outputs[i] != ir::kNone) values_[step.node->outputs[i]] = results[i];
        }
        return;
      }
    }
  }

  void run_kernel(const Step& step, const Variant& variant, int row) {
    const kernels::Family& family = *step.family;
    const void* problem = variant.problem.data();
    const std::vector<Stored> in = store_inputs(step, variant);
    std::vector<Stored> out;
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const ir::Value& v = lowered_.graph->value(step.outputs[i]);
      out.push_back(new_storage(*v.shape, v.dtype, variant.outputs[i], block_, 0x7f));
    }
    const Stored packed = filled(family.packed_bytes(row, problem), 0xff);
    const Stored scratch = filled(family.scratch_bytes(row, problem), 0xff);
    family.pack(row, problem, step.constants, packed.data.get());
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Stored& s : in) from.push_back(s.data.get());
    for (const Stored& s : out) to.push_back(s.data.get());
    const kernels::Args args{from, to, packed.data.get(), scratch.data.get()};
    team_.run(
        [&](const Worker& worker) { kernels::run_shares(family, row, problem, args, worker); });
    for (size_t i = 0; i < out.size(); ++i) take(step.outputs[i], out[i], variant.outputs[i]);
  }

  const Lowered& lowered_;
  const int block_;
  ThreadTeam& team_;
  std::vector<Tensor> values_;
};

// Every (step, variant, row) of a lowered graph that fits, until `f` returns false.
inline void each_choice(const Lowered& lowered, const std::function<bool(const Forced&)>& f) {
  for (size_t s = 0; s < lowered.steps.size(); ++s) {
    const Step& step = lowered.steps[s];
    for (size_t v = 0; v < step.variants.size(); ++v) {
      const int rows = step.family == nullptr ? 1 : step.family->rows;
      for (int row = 0; row < rows; ++row) {
        const void* problem = step.variants[v].problem.data();
        if (step.family != nullptr && !step.family->fits(row, problem).ok) continue;
        if (!f({s, v, row})) return;
      }
    }
  }
}

// --- Comparing

// What a result may differ by.
struct Tolerance {
  double relative = 0;  // of the element where `pointwise`, else of the largest one
  bool pointwise = false;
  // Values that are not finite may reach other elements too: sums over tiles mix neighbours.
  bool spreads = false;
};

// What is right for a case, and how sharply its inputs determine that.
class Expectation {
 public:
  explicit Expectation(const ir::Case& c)
      : case_(c), outputs_(ir::interpret(c.graph, c.inputs, {.float64 = false})) {
    for (const Tensor& t : c.inputs) finite_ = finite_ && all_finite(t);
    for (const ir::Value& v : c.graph.values) {
      if (v.is_constant()) finite_ = finite_ && all_finite(v.constant);
    }
  }

  const std::vector<Tensor>& outputs() const { return outputs_; }

  // "" or what is wrong with one result.
  std::string fault(const std::vector<Tensor>& got, const Tolerance& tolerance) {
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (got[o].dtype() != outputs_[o].dtype() || got[o].shape() != outputs_[o].shape()) {
        return fmt::format("output {} has another shape or type", o);
      }
      const std::vector<double> e = outputs_[o].as_doubles(), g = got[o].as_doubles();
      double largest = 0;
      for (double v : e) largest = std::max(largest, std::isfinite(v) ? std::fabs(v) : 0);
      for (size_t i = 0; i < e.size(); ++i) {
        if (e[i] == g[i] || (std::isnan(e[i]) && std::isnan(g[i]))) continue;
        if (is_float(got[o].dtype()) && allowed(o, i, e[i], g[i], largest, tolerance)) continue;
        return fmt::format("output {} [{}] is {}, expected {} (largest {})", o, i, g[i], e[i],
                           largest);
      }
    }
    return "";
  }

 private:
  static bool is_float(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

  static bool all_finite(const Tensor& t) {
    if (!is_float(t.dtype())) return true;
    for (double v : t.as_doubles()) {
      if (!std::isfinite(v)) return false;
    }
    return true;
  }

  bool allowed(size_t o, size_t i, double e, double g, double largest, const Tolerance& t) {
    if (t.spreads && !finite_ && !std::isfinite(g)) return true;
    if (std::isfinite(e) && std::isfinite(g)) {
      // Activations are exact to 2e-7 only where they nearly vanish.
      const double scale = t.pointwise ? std::fabs(e) + 0.5 : std::max(largest, 0.1);
      if (std::fabs(e - g) <= t.relative * scale) return true;
    }
    return t.relative > 0 && std::fabs(e - g) <= kConditioning * spread(o, i, t.pointwise);
  }

  // Fused arithmetic and long sums lose more than their result shows: as much as the result moves
  // when the inputs move by a few roundings, several times over.
  static constexpr double kConditioning = 16;
  static constexpr int kProbes = 4;

  double spread(size_t o, size_t i, bool pointwise) {
    if (spreads_.empty()) probe();
    if (pointwise) return spreads_[o][i];
    double largest = 0;
    for (double v : spreads_[o]) largest = std::max(largest, std::isfinite(v) ? v : 0);
    return largest;
  }

  // Finite values but zeros times 1 +- 2^-22.
  static Tensor moved(const Tensor& t, uint64_t& state) {
    if (t.dtype() != DType::kFloat32) return t;
    Tensor to = t.converted(DType::kFloat32);
    for (float& v : to.mutable_values<float>()) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      if (std::isfinite(v)) v *= state >> 63 != 0 ? 1 + 0x1p-22f : 1 - 0x1p-22f;
    }
    return to;
  }

  void probe() {
    spreads_.resize(outputs_.size());
    for (size_t o = 0; o < outputs_.size(); ++o) {
      spreads_[o].assign(static_cast<size_t>(outputs_[o].count()), 0);
    }
    uint64_t state = 1;
    for (int n = 0; n < kProbes; ++n) {
      ir::Graph graph = case_.graph;
      // Constants of a resize are geometry.
      for (ir::Value& v : graph.values) {
        if (v.is_constant() && case_.node().op->name != "Resize") {
          v.constant = moved(v.constant, state);
        }
      }
      std::vector<Tensor> inputs;
      for (const Tensor& t : case_.inputs) inputs.push_back(moved(t, state));
      const auto outputs = ir::interpret(graph, inputs, {.float64 = false});
      for (size_t o = 0; o < outputs.size(); ++o) {
        const std::vector<double> a = outputs_[o].as_doubles(), b = outputs[o].as_doubles();
        for (size_t i = 0; i < a.size(); ++i) {
          if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
          const double d = std::fabs(a[i] - b[i]);
          spreads_[o][i] = std::max(spreads_[o][i], std::isfinite(d) ? d : HUGE_VAL);
        }
      }
    }
  }

  const ir::Case& case_;
  std::vector<Tensor> outputs_;
  bool finite_ = true;
  std::vector<std::vector<double>> spreads_;
};

}  // namespace stretto::runtime
