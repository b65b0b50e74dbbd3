#include "stretto/runtime/stateful_programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "stretto/base/error.h"

namespace stretto::runtime {

// The samples that a run is for, and which of their places are real.
struct StatefulPrograms::Samples {
  int64_t first = 0, count = 1;
  int64_t places = 0;  // new ones of each
  // [count][places]; empty: all are.
  std::vector<uint8_t> visible;
  int last = -1;  // output of which the last place is wanted, among those of the model

  bool sees(int64_t sample, int64_t place) const {
    return visible.empty() || visible[static_cast<size_t>(sample * places + place)] != 0;
  }
};

// What a run has made of a pair that does not grow: of one sample, or of all.
struct StatefulPrograms::Replaced {
  size_t pair = 0;
  int64_t sample = -1;  // -1: all
  Tensor tensor;

  void store(Context::State& context) {
    StateMemory& m = context.memory[pair];
    if (sample < 0) {
      m.other = std::exchange(m.data, std::move(tensor));
    } else {
      copy_sample(tensor, 0, m.data, sample, m.batch_axis);
    }
  }
};

StatefulPrograms::StatefulPrograms(Model model, const kernels::Target& target)
    : model_(model), programs_(std::move(model), target) {}

namespace {

void check_inputs(const std::map<std::string, Tensor>& inputs, const StateLayout& layout) {
  for (const auto& [name, tensor] : inputs) {
    const auto known = [&, &name = name](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    if (!known(layout.inputs) && !known(layout.optional)) {
      throw_invalid("{}: a run with a context takes {}", name, fmt::join(layout.inputs, ", "));
    }
    const auto i = static_cast<size_t>(std::find(layout.names.begin(), layout.names.end(), name) -
                                       layout.names.begin());
    if (static_cast<int>(i) == layout.mask) continue;  // of the new places, of any type
    if (tensor.dtype() != layout.dtypes[i]) {
      throw_invalid("input {}: expected {}, got {}", name, dtype_name(layout.dtypes[i]),
                    dtype_name(tensor.dtype()));
    }
    const ShapeRange& range = layout.ranges[i];
    bool fits = tensor.shape().size() == range.size();
    for (size_t axis = 0; fits && axis < range.size(); ++axis) {
      const int64_t size = tensor.shape()[axis];
      fits = size >= range[axis].least && size <= range[axis].most;
    }
    if (fits) continue;
    throw_invalid("input {}: expected shape {}, got {}", name, shape_range_text(range),
                  shape_text(tensor.shape()));
  }
  for (const std::string& name : layout.inputs) {
    if (!inputs.contains(name)) throw_invalid("input {} is missing", name);
  }
}

// Among the outputs of the model; -1 for no name.
int output_of(const StateLayout& layout, const std::string& name) {
  if (name.empty()) return -1;
  for (size_t o = 0; o < layout.outputs.size(); ++o) {
    if (layout.outputs[o] == name) return layout.output_indices[o];
  }
  throw_invalid("last place of {}: a run with a context returns {}", name,
                fmt::join(layout.outputs, ", "));
}

Tensor of_type(Tensor tensor, DType dtype) {
  return tensor.dtype() == dtype ? tensor : tensor.converted(dtype);
}

// [batch, new places] of the caller's mask; nothing when it hides none.
std::vector<uint8_t> hidden_places(const Tensor& mask, int64_t batch, int64_t places) {
  if (mask.shape() != Shape{batch, places}) {
    throw_invalid(
        "input attention_mask: expected shape {} of the new places, got {}; the context adds those "
        "before",
        shape_text(Shape{batch, places}), shape_text(mask.shape()));
  }
  std::vector<uint8_t> visible;
  bool all = true;
  for (double value : mask.as_doubles()) {
    visible.push_back(value != 0);
    all = all && value != 0;
  }
  if (all) visible.clear();
  return visible;
}

Tensor full_mask(const Context::State& c, DType dtype, int64_t before, int64_t first, int64_t count,
                 int64_t places, const auto& sees) {
  Tensor mask(DType::kInt64, {count, before + places});
  auto values = mask.mutable_values<int64_t>();
  for (int64_t b = 0; b < count; ++b) {
    int64_t* row = values.data() + b * (before + places);
    const auto& used = c.visible[static_cast<size_t>(first + b)];
    if (before > 0) {
      std::copy(used.begin(), used.end(), row + before - static_cast<int64_t>(used.size()));
    }
    for (int64_t p = 0; p < places; ++p) row[before + p] = sees(b, p);
  }
  return of_type(std::move(mask), dtype);
}

// A token's position is the number of real ones before it.
Tensor full_positions(const Context::State& c, const StateLayout& layout, int64_t first,
                      int64_t count, int64_t places, const auto& sees) {
  const auto input = static_cast<size_t>(layout.positions);
  const bool shared = layout.ranges[input][0].fixed() && layout.ranges[input][0].least == 1;
  Tensor positions(DType::kInt64, {shared ? 1 : count, places});
  auto values = positions.mutable_values<int64_t>();
  bool given = false;  // the shared row, by a sample that shows something
  for (int64_t b = 0; b < count; ++b) {
    bool shows = false;
    for (int64_t p = 0; p < places; ++p) shows = shows || sees(b, p) != 0;
    if (given && !shows) continue;  // its positions do not matter
    const auto& used = c.visible[static_cast<size_t>(first + b)];
    int64_t next = std::count(used.begin(), used.end(), 1);
    for (int64_t p = 0; p < places; ++p) {
      int64_t& value = values[static_cast<size_t>((shared ? 0 : b) * places + p)];
      if (given && value != next) {
        throw_invalid(
            "input position_ids takes one row for all samples, and these have different lengths; "
            "give all the same length, or export the model with a row for each");
      }
      value = next;
      next += sees(b, p);
    }
    given = given || (shared && shows);
  }
  return of_type(std::move(positions), layout.dtypes[input]);
}

// One output of samples that ran alone, as if they had run together. Where its second dimension
// counts their places, these go to `columns` of `places`.
// `last`: they have the last place of each only.
Tensor united(const std::string& name, const std::vector<Tensor>& parts,
              const std::vector<std::vector<int64_t>>& columns, int64_t places, bool last) {
  Shape shape = parts[0].shape();
  bool per_place = shape.size() >= 2 && !last;
  for (size_t b = 0; per_place && b < parts.size(); ++b) {
    per_place = parts[b].rank() >= 2 && parts[b].dim(1) == static_cast<int64_t>(columns[b].size());
  }
  for (const Tensor& part : parts) {
    bool alike = part.rank() == parts[0].rank() && part.rank() > 0 && part.dim(0) == 1;
    for (int axis = 1; alike && axis < part.rank(); ++axis) {
      alike = (per_place && axis == 1) || part.dim(axis) == parts[0].dim(axis);
    }
    if (alike) continue;
    throw_invalid(
        "output {}: of samples of different lengths it has the shapes {} and {}, which do not go "
        "together; give prompts of one length, or run them with contexts of their own",
        name, shape_text(parts[0].shape()), shape_text(part.shape()));
  }
  shape[0] = static_cast<int64_t>(parts.size());
  if (per_place) shape[1] = places;
  Tensor all(parts[0].dtype(), shape);
  shape[0] = 1;
  for (size_t b = 0; b < parts.size(); ++b) {
    Tensor part = parts[b];
    if (per_place) {
      part = Tensor(part.dtype(), shape);
      for (size_t p = 0; p < columns[b].size(); ++p) {
        copy_sample(parts[b], static_cast<int64_t>(p), part, columns[b][p], 1);
      }
    }
    copy_sample(part, 0, all, static_cast<int64_t>(b), 0);
  }
  return all;
}

// [batch, 1, ...] of [batch, places, ...].
Tensor last_of(const Tensor& all, int64_t places) {
  if (places == 1 || all.rank() < 2 || all.dim(1) != places) return all;
  Shape shape = all.shape();
  shape[1] = 1;
  Tensor last(all.dtype(), shape);
  copy_sample(all, places - 1, last, 0, 1);
  return last;
}

// The columns of one sample: [batch, places, ...] to [1, columns, ...] where the input is so.
Tensor part_of_sample(const Tensor& tensor, const ShapeRange& range, int64_t sample, int64_t batch,
                      int64_t places, const std::vector<int64_t>& columns) {
  if (tensor.rank() == 0 || tensor.dim(0) != batch || range[0].fixed()) return tensor;
  Shape shape = tensor.shape();
  shape[0] = 1;
  Tensor one(tensor.dtype(), shape);
  copy_sample(tensor, sample, one, 0, 0);
  if (shape.size() < 2 || shape[1] != places || range[1].fixed()) return one;
  shape[1] = static_cast<int64_t>(columns.size());
  Tensor kept(tensor.dtype(), shape);
  for (size_t p = 0; p < columns.size(); ++p) {
    copy_sample(one, columns[p], kept, static_cast<int64_t>(p), 1);
  }
  return kept;
}

}  // namespace

std::vector<Tensor> StatefulPrograms::run_samples(const std::map<std::string, Tensor>& inputs,
                                                  Context::State& c, const Samples& samples,
                                                  std::vector<Replaced>& replaced) {
  const StateLayout& layout = *c.layout;
  const bool empty = c.used == 0, alone = samples.count != c.batch;
  const int64_t before = empty ? 0 : c.capacity;
  const auto sees = [&](int64_t b, int64_t p) { return samples.sees(b, p); };
  std::vector<Tensor> held;  // what is passed, in model order; nothing for memory
  std::vector<Shape> shapes;
  std::vector<const void*> from;
  for (size_t i = 0; i < layout.names.size(); ++i) {
    const int index = static_cast<int>(i);
    const auto given = inputs.find(layout.names[i]);
    Tensor tensor;
    if (const StatePair* pair = layout.pair_of(index)) {
      StateMemory& m = c.memory[static_cast<size_t>(pair - layout.pairs.data())];
      Shape shape = m.shape;
      if (pair->axis >= 0) {
        shape[0] = samples.count;
        shape[static_cast<size_t>(pair->axis)] = before;
        const int64_t row = empty ? c.end - samples.places : c.end - c.capacity;
        const int64_t outer = samples.first * (m.outer / c.batch);
        from.push_back(static_cast<std::byte*>(m.data.mutable_data()) +
                       (outer * c.rows + row) * m.inner_bytes);
        shapes.push_back(std::move(shape));
        held.emplace_back();
        continue;
      }
      tensor = m.data;
      if (alone && m.batch_axis < 0) {
        throw_invalid(
            "samples of different lengths: it is not clear which dimension of {} {} is "
            "the batch; run them with contexts of their own",
            pair->input, shape_text(m.shape));
      }
      if (alone) {
        shape[static_cast<size_t>(m.batch_axis)] = 1;
        tensor = Tensor(m.dtype, shape);
        copy_sample(m.data, samples.first, tensor, 0, m.batch_axis);
      }
    } else if (index == layout.mask) {
      tensor = full_mask(c, layout.dtypes[i], before, samples.first, samples.count, samples.places,
                         sees);
    } else if (index == layout.positions && given == inputs.end()) {
      tensor = full_positions(c, layout, samples.first, samples.count, samples.places, sees);
    } else {
      tensor = given->second;
    }
    shapes.push_back(tensor.shape());
    from.push_back(tensor.data());
    held.push_back(std::move(tensor));
  }
  const int narrowed = samples.places > 1 ? samples.last : -1;
  const ContextPrograms::Ready ready =
      programs_.get(layout, shapes, layout.grows ? c.rows : 0, narrowed);
  const Program& program = *ready.program;
  std::vector<Tensor> results;
  std::vector<void*> to;
  for (const TensorSpec& spec : program.outputs) {
    const auto pair = std::find_if(layout.pairs.begin(), layout.pairs.end(),
                                   [&](const StatePair& p) { return p.output == spec.name; });
    if (pair == layout.pairs.end()) {
      results.emplace_back(spec.dtype, spec.shape);
      to.push_back(results.back().mutable_data());
      continue;
    }
    const auto at = static_cast<size_t>(pair - layout.pairs.begin());
    StateMemory& m = c.memory[at];
    Tensor target = alone ? Tensor(spec.dtype, spec.shape) : m.other;
    to.push_back(target.mutable_data());
    replaced.push_back({at, alone ? samples.first : -1, std::move(target)});
  }
  ExecutorPool::Lease(*ready.pool).run(from, to);
  for (size_t o = 0; o < results.size(); ++o) {
    if (layout.output_indices[o] != samples.last) continue;
    results[o] = last_of(results[o], samples.places);
  }
  return results;
}

// Samples of different lengths in the first run: each alone, without padding.
std::vector<Tensor> StatefulPrograms::run_each(const std::map<std::string, Tensor>& inputs,
                                               const Tensor& mask, Context::State& c, int last) {
  const StateLayout& layout = *c.layout;
  const int64_t places = mask.dim(1);
  const std::vector<uint8_t> visible = hidden_places(mask, c.batch, places);
  std::vector<std::vector<int64_t>> columns(static_cast<size_t>(c.batch));
  int64_t longest = 0;
  for (int64_t b = 0; b < c.batch; ++b) {
    auto& own = columns[static_cast<size_t>(b)];
    for (int64_t p = 0; p < places; ++p) {
      if (visible[static_cast<size_t>(b * places + p)]) own.push_back(p);
    }
    if (own.empty()) throw_invalid("input attention_mask: sample {} has no token", b);
    longest = std::max(longest, static_cast<int64_t>(own.size()));
  }
  c.make_room(longest);
  std::vector<std::vector<Tensor>> results;  // per sample
  std::vector<Replaced> replaced;            // stored when all have run
  for (int64_t b = 0; b < c.batch; ++b) {
    const auto& own = columns[static_cast<size_t>(b)];
    const auto count = static_cast<int64_t>(own.size());
    std::map<std::string, Tensor> part;
    for (const auto& [name, tensor] : inputs) {
      if (name == "attention_mask") continue;
      const auto i = static_cast<size_t>(std::find(layout.names.begin(), layout.names.end(), name) -
                                         layout.names.begin());
      part.emplace(name, part_of_sample(tensor, layout.ranges[i], b, c.batch, places, own));
    }
    results.push_back(
        run_samples(part, c, {.first = b, .count = 1, .places = count, .last = last}, replaced));
  }
  std::vector<Tensor> all;
  for (size_t o = 0; o < results[0].size(); ++o) {
    std::vector<Tensor> parts;
    for (const auto& of_sample : results) parts.push_back(of_sample[o]);
    all.push_back(
        united(layout.outputs[o], parts, columns, places, layout.output_indices[o] == last));
  }
  for (Replaced& one : replaced) one.store(c);
  for (int64_t b = 0; b < c.batch; ++b) {
    auto& places_of = c.visible[static_cast<size_t>(b)];
    const size_t count = columns[static_cast<size_t>(b)].size();
    places_of.assign(static_cast<size_t>(longest) - count, 0);
    places_of.insert(places_of.end(), count, 1);
  }
  c.used = longest;
  return all;
}

std::vector<Tensor> StatefulPrograms::run(const std::map<std::string, Tensor>& inputs,
                                          Context::State& c, const ContextRunOptions& options) {
  const Context::State::Turn turn(c);
  const StateLayout& layout = *c.layout;
  if (&c.model.state() != &model_.state()) {
    throw_invalid("context: it was made for another model ({}), this one is {}", c.model.name(),
                  model_.name());
  }
  check_inputs(inputs, layout);
  const int last = output_of(layout, options.last_place_of);
  std::vector<Replaced> replaced;
  if (!layout.grows) {
    std::vector<Tensor> results = run_samples(inputs, c, {.count = c.batch}, replaced);
    for (Replaced& one : replaced) one.store(c);
    return results;
  }
  const Tensor& tokens = inputs.at(layout.names[static_cast<size_t>(layout.tokens)]);
  const std::string& name = layout.names[static_cast<size_t>(layout.tokens)];
  if (tokens.rank() < 2 || tokens.dim(0) != c.batch || tokens.dim(1) < 1) {
    throw_invalid("input {}: expected a shape of [{}, new places, ...], got {}", name, c.batch,
                  shape_text(tokens.shape()));
  }
  Samples samples{.count = c.batch, .places = tokens.dim(1), .visible = {}, .last = last};
  if (const auto mask = inputs.find("attention_mask"); mask != inputs.end()) {
    samples.visible = hidden_places(mask->second, c.batch, samples.places);
    if (c.used == 0 && !samples.visible.empty()) {
      try {
        return run_each(inputs, mask->second, c, last);
      } catch (...) {
        c.clear_places();  // some samples have run already
        throw;
      }
    }
  }
  const bool empty = c.used == 0;
  c.make_room(samples.places);
  std::vector<Tensor> results = run_samples(inputs, c, samples, replaced);
  for (Replaced& one : replaced) one.store(c);
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t p = 0; p < samples.places; ++p) {
      c.visible[static_cast<size_t>(b)].push_back(samples.sees(b, p));
    }
  }
  c.used += samples.places;
  if (!empty) c.end += samples.places;
  return results;
}

}  // namespace stretto::runtime
