#include "stretto/runtime/state_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/base/memory.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/position_check.h"

namespace stretto::runtime {
namespace {

int index_of(const std::vector<std::string>& names,
             std::initializer_list<std::string_view> wanted) {
  for (std::string_view name : wanted) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at != names.end()) return static_cast<int>(at - names.begin());
  }
  return -1;
}

}  // namespace

const StatePair* StateLayout::pair_of(int input) const {
  for (const StatePair& pair : pairs) {
    if (pair.input_index == input) return &pair;
  }
  return nullptr;
}

void refuse_context(const Model& model) {
  throw_unsupported(
      "{}: it depends on values (If, Loop or sizes that it computes), and such models have no "
      "contexts: pass the state as inputs and outputs",
      model.name());
}

namespace {

std::shared_ptr<const StateLayout> look_at(const Model& model,
                                           const std::map<std::string, std::string>& named) {
  if (!model.preprocess().empty()) {
    throw_unsupported(
        "{}: a model that takes pictures keeps nothing from run to run; optimise it "
        "without preprocess for that",
        model.name());
  }
  auto layout = std::make_shared<StateLayout>();
  std::vector<std::string> outputs;
  std::vector<Shape> shapes;
  for (const TensorSpec& input : model.inputs()) {
    layout->names.push_back(input.name);
    layout->dtypes.push_back(input.dtype);
    shapes.push_back(input.shape);
  }
  for (const TensorSpec& output : model.outputs()) outputs.push_back(output.name);
  layout->ranges = model.input_ranges();
  const auto pairs = named.empty() ? find_pairs(layout->names, outputs) : named;
  if (pairs.empty()) {
    throw_invalid(
        "{}: no input looks like the state that an output leaves; name the pairs, as in state = "
        "{{h0: hn}}, or export the model with its past as inputs (past_key_values.0.key) and "
        "outputs (present.0.key). Inputs: {}; outputs: {}",
        model.name(), fmt::join(layout->names, ", "), fmt::join(outputs, ", "));
  }
  // Importing says how outputs are made; passes may have changed that.
  if (model.state().by_shape) {
    layout->pairs = describe_pairs(model.state().by_shape->import_in_turn(shapes).graph, pairs);
  } else {
    layout->pairs = describe_pairs(*model.state().graph, pairs);
  }
  bool all_open = true;
  for (const StatePair& pair : layout->pairs) {
    if (pair.axis < 0) continue;
    layout->grows = true;
    const ShapeRange& range = layout->ranges[static_cast<size_t>(pair.input_index)];
    all_open &= !range[static_cast<size_t>(pair.axis)].fixed();
  }
  if (layout->grows && !all_open) {
    throw_invalid(
        "{}: its caches have a fixed length; leave the dimensions of the past open when it is "
        "exported and optimised",
        model.name());
  }
  if (layout->grows) {
    layout->mask = index_of(layout->names, {"attention_mask"});
    layout->positions = index_of(layout->names, {"position_ids"});
    if (layout->mask < 0) {
      throw_invalid(
          "{}: it has no input attention_mask, so places of a cache that are not used cannot be "
          "hidden; export it with one. Inputs: {}",
          model.name(), fmt::join(layout->names, ", "));
    }
    for (int role : {layout->mask, layout->positions}) {
      if (role < 0 || layout->ranges[static_cast<size_t>(role)].size() == 2) continue;
      throw_invalid("{}: input {}: expected [batch, places], got {}", model.name(),
                    layout->names[static_cast<size_t>(role)],
                    shape_range_text(layout->ranges[static_cast<size_t>(role)]));
    }
  }
  for (size_t i = 0; i < layout->names.size(); ++i) {
    const int index = static_cast<int>(i);
    if (layout->pair_of(index) != nullptr) continue;
    if (index == layout->mask || index == layout->positions) {
      layout->optional.push_back(layout->names[i]);
      continue;
    }
    layout->inputs.push_back(layout->names[i]);
    const bool counts = layout->ranges[i].size() >= 2;
    if (layout->grows && layout->tokens < 0 && counts) layout->tokens = index;
  }
  if (const int ids = index_of(layout->names, {"input_ids", "inputs_embeds"});
      layout->grows && ids >= 0) {
    layout->tokens = ids;
  }
  if (layout->grows && layout->tokens < 0) {
    throw_invalid("{}: no input is [batch, new places], as input_ids is", model.name());
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const bool is_state = std::any_of(
        layout->pairs.begin(), layout->pairs.end(),
        [&](const StatePair& pair) { return pair.output_index == static_cast<int>(o); });
    if (is_state) continue;
    layout->outputs.push_back(outputs[o]);
    layout->output_indices.push_back(static_cast<int>(o));
  }
  return layout;
}

// Throws Unsupported when a batch takes more memory than there is: before sizes overflow.
void check_fits(const StatePair& pair, const Shape& shape, DType dtype, int64_t batch) {
  constexpr double kLeastPlaces = 64, kLists = 32;  // bytes that lists take per sample
  double bytes = static_cast<double>(dtype_bytes(dtype));
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    bytes *=
        static_cast<int64_t>(axis) == pair.axis ? kLeastPlaces : static_cast<double>(shape[axis]);
  }
  if (bytes + kLists * static_cast<double>(batch) <= static_cast<double>(total_memory_bytes())) {
    return;
  }
  throw_unsupported("batch: {} samples of {} take more memory than this machine has", batch,
                    pair.input);
}

}  // namespace

std::shared_ptr<const StateLayout> describe_state(const Model& model,
                                                  const std::map<std::string, std::string>& pairs) {
  if (model.state().staged) refuse_context(model);
  StateLayouts& known = *model.state().layouts;
  {
    const std::lock_guard lock(known.mutex);
    if (const auto at = known.by_pairs.find(pairs); at != known.by_pairs.end()) return at->second;
  }
  auto layout = look_at(model, pairs);
  check_positions(model, layout);
  const std::lock_guard lock(known.mutex);
  return known.by_pairs.try_emplace(pairs, std::move(layout)).first->second;
}

// Its open dimensions are the batch, besides the one that grows.
StateMemory make_memory(const StateLayout& layout, const StatePair& pair, int64_t batch) {
  const auto input = static_cast<size_t>(pair.input_index);
  const ShapeRange& range = layout.ranges[input];
  StateMemory m{.dtype = layout.dtypes[input], .batch_axis = -1};
  for (size_t axis = 0; axis < range.size(); ++axis) {
    const Dimension& d = range[axis];
    if (static_cast<int64_t>(axis) == pair.axis) {
      m.shape.push_back(0);
    } else if (d.fixed()) {
      m.shape.push_back(d.least);
    } else {
      if (batch < d.least || batch > d.most) {
        throw_invalid("batch: input {} takes {}, got {}", pair.input, shape_range_text(range),
                      batch);
      }
      if (m.batch_axis < 0) {
        m.batch_axis = static_cast<int>(axis);
      } else if (d.name.empty() || d.name != range[static_cast<size_t>(m.batch_axis)].name) {
        throw_invalid(
            "state: input {}: {} leaves dimensions {} and {} open, and only the batch and what "
            "grows may be; give it a size when the model is optimised",
            pair.input, shape_range_text(range), m.batch_axis, axis);
      }
      m.shape.push_back(batch);
    }
  }
  // A state of one fixed batch: its only dimension of that size.
  if (m.batch_axis < 0 && std::count(m.shape.begin(), m.shape.end(), batch) == 1) {
    m.batch_axis =
        static_cast<int>(std::find(m.shape.begin(), m.shape.end(), batch) - m.shape.begin());
  }
  check_fits(pair, m.shape, m.dtype, batch);
  if (pair.axis < 0) {
    m.data = Tensor(m.dtype, m.shape);
    m.other = Tensor(m.dtype, m.shape);
    return m;
  }
  if (m.shape[0] != batch) {
    throw_invalid("batch: the first dimension of {} is {}, got a batch of {}", pair.input,
                  m.shape[0], batch);
  }
  m.inner_bytes = static_cast<int64_t>(dtype_bytes(m.dtype));
  for (size_t axis = 0; axis < m.shape.size(); ++axis) {
    const auto at = static_cast<int64_t>(axis);
    if (at < pair.axis) m.outer *= m.shape[axis];
    if (at > pair.axis) m.inner_bytes *= m.shape[axis];
  }
  return m;
}

}  // namespace stretto::runtime
