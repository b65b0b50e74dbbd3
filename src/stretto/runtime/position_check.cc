#include "stretto/runtime/position_check.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/runtime/context.h"
#include "stretto/runtime/executor.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/stateful_programs.h"

namespace stretto::runtime {
namespace {

constexpr int64_t kBefore = 3;  // places of the first run; the second has one

// The largest relative_difference that rounding may make, relative to the largest number.
constexpr double kTolerance = 1e-3, kToleranceOfHalves = 2e-2;

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

bool has_halves(const Model& model, const StateLayout& layout) {
  const auto& values = model.state().graph->values;
  return std::any_of(layout.dtypes.begin(), layout.dtypes.end(), is_half) ||
         std::any_of(values.begin(), values.end(),
                     [](const ir::Value& value) { return is_half(value.dtype); });
}

// An input that is no state, for `places` new places. Zeros and ones are token ids of any model.
Tensor probe(const StateLayout& layout, size_t input, int64_t batch, int64_t places) {
  const auto tokens = static_cast<size_t>(layout.tokens);
  const Dimension& sample = layout.ranges[tokens][0];
  const Dimension& place = layout.ranges[tokens][1];
  Shape shape;
  for (size_t axis = 0; axis < layout.ranges[input].size(); ++axis) {
    const Dimension& d = layout.ranges[input][axis];
    const auto is = [&](const Dimension& known, size_t at) {
      return !d.fixed() && (!d.name.empty() ? d.name == known.name : axis == at);
    };
    shape.push_back(is(place, 1) ? places : is(sample, 0) ? batch : std::max<int64_t>(d.least, 1));
  }
  Tensor tensor(DType::kFloat32, shape);
  const bool whole = !is_float(layout.dtypes[input]);
  int64_t i = places;
  for (float& value : tensor.mutable_values<float>()) {
    ++i;
    value = whole ? static_cast<float>(i % 2) : static_cast<float>(i * 37 % 101) / 101 - 0.5f;
  }
  return tensor.converted(layout.dtypes[input]);
}

std::map<std::string, Tensor> probes(const StateLayout& layout, int64_t batch, int64_t places) {
  std::map<std::string, Tensor> inputs;
  for (size_t i = 0; i < layout.names.size(); ++i) {
    const std::string& name = layout.names[i];
    if (std::find(layout.inputs.begin(), layout.inputs.end(), name) == layout.inputs.end())
      continue;
    inputs.emplace(name, probe(layout, i, batch, places));
  }
  return inputs;
}

// What the model makes of one more place when its past is as long as what is in it.
std::vector<Tensor> run_exactly(const Model& model, const StateLayout& layout,
                                const kernels::Target& target,
                                const std::map<std::string, Tensor>& inputs, int64_t batch) {
  std::vector<Tensor> held;
  std::vector<Shape> shapes;
  std::vector<const void*> from;
  for (size_t i = 0; i < layout.names.size(); ++i) {
    if (static_cast<int>(i) == layout.mask) {
      Tensor ones(DType::kInt64, {batch, kBefore + 1});
      std::ranges::fill(ones.mutable_values<int64_t>(), 1);
      held.push_back(ones.converted(layout.dtypes[i]));
    } else {
      held.push_back(inputs.at(layout.names[i]));
    }
    shapes.push_back(held.back().shape());
    from.push_back(held.back().data());
  }
  ProgramsByShape& by_shape = *model.state().by_shape;
  const auto program =
      model.state().siblings->compile(by_shape.import_in_turn(shapes), target, {}, false);
  std::vector<Tensor> all, results;
  std::vector<void*> to;
  for (const TensorSpec& spec : program->outputs) {
    all.emplace_back(spec.dtype, spec.shape);
    to.push_back(all.back().mutable_data());
  }
  Executor(*program).run(from, to);
  for (int output : layout.output_indices) results.push_back(all[static_cast<size_t>(output)]);
  return results;
}

// Relative to the largest number. Numbers that are not finite in both say nothing.
double relative_difference(const Tensor& got, const Tensor& want) {
  double largest = 0, error = 0;
  const auto a = got.as_doubles(), b = want.as_doubles();
  for (size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(b[i])) continue;
    if (!std::isfinite(a[i])) return INFINITY;
    largest = std::max(largest, std::abs(b[i]));
    error = std::max(error, std::abs(a[i] - b[i]));
  }
  return error == 0 ? 0 : error / std::max(largest, 1e-30);
}

}  // namespace

void check_positions(const Model& model, const std::shared_ptr<const StateLayout>& layout) {
  if (!layout->grows || layout->positions >= 0) return;
  kernels::Target target = model.state().program->target;
  target.threads = 1;
  const int64_t batch =
      std::max<int64_t>(layout->ranges[static_cast<size_t>(layout->tokens)][0].least, 1);
  std::vector<Tensor> got, want;
  try {
    StatefulPrograms programs(model, target);
    const auto state = new_state(model, layout, batch, kBefore + 1);
    programs.run(probes(*layout, batch, kBefore), *state);
    std::map<std::string, Tensor> inputs = state->save();
    inputs.merge(probes(*layout, batch, 1));
    got = programs.run(probes(*layout, batch, 1), *state);
    want = run_exactly(model, *layout, target, inputs, batch);
  } catch (const InvalidArgument&) {
    return;  // other numbers of places may be what it takes
  } catch (const Unsupported&) {
    return;
  }
  const double tolerance = has_halves(model, *layout) ? kToleranceOfHalves : kTolerance;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].shape() != want[i].shape() || relative_difference(got[i], want[i]) < tolerance)
      continue;
    throw_invalid(
        "{}: it has no input position_ids, and counts positions by the length of its past instead "
        "of attention_mask; export it with position_ids",
        model.name());
  }
}

}  // namespace stretto::runtime
