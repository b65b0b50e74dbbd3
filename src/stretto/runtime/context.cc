#include "stretto/runtime/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/tensor/layout.h"

namespace stretto {
namespace runtime {
namespace {

constexpr int64_t kLeastCapacity = 64;
// Places that a first run leaves free, so that memory does not grow at once.
constexpr int64_t kSpare = 32;
// Without a caller's limit beyond it, this much is made room for at the start.
constexpr int64_t kReserve = 1024;

int64_t rounded(int64_t places) {
  return static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max(places, kLeastCapacity))));
}

// Steps until the window has to move back: moving costs `used` rows, so a step copies at most
// eight.
int64_t slack_of(int64_t capacity) { return std::max<int64_t>(16, capacity / 8); }

// [outer, from_rows, inner] to [outer, to_rows, inner]: `count` rows from `from_row` to `to_row`.
void move_rows(const StateMemory& m, const std::byte* from, int64_t from_rows, int64_t from_row,
               std::byte* to, int64_t to_rows, int64_t to_row, int64_t count) {
  for (int64_t o = 0; o < m.outer; ++o) {
    std::memmove(to + (o * to_rows + to_row) * m.inner_bytes,
                 from + (o * from_rows + from_row) * m.inner_bytes,
                 static_cast<size_t>(count * m.inner_bytes));
  }
}

Tensor new_memory(const StateMemory& m, int64_t rows) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(m.outer * m.inner_bytes, rows, &bytes)) {
    throw_unsupported("memory: {} places of a context are more than a processor can address", rows);
  }
  return Tensor(DType::kUInt8, {bytes});
}

std::byte* bytes_of(Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data()); }
const std::byte* bytes_of(const Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.data());
}

Tensor copy_of(const Tensor& from) {
  if (!from.defined()) return {};
  Tensor to(from.dtype(), from.shape());
  std::memcpy(to.mutable_data(), from.data(), from.bytes());
  return to;
}

// The most places that the model takes as past, and an input that says so.
std::pair<int64_t, std::string_view> most_past(const StateLayout& layout) {
  std::pair<int64_t, std::string_view> most{Dimension::kAny, ""};
  for (const StatePair& pair : layout.pairs) {
    if (pair.axis < 0) continue;
    const Dimension& d =
        layout.ranges[static_cast<size_t>(pair.input_index)][static_cast<size_t>(pair.axis)];
    if (d.most < most.first) most = {d.most, pair.input};
  }
  return most;
}

}  // namespace

void copy_sample(const Tensor& from, int64_t from_sample, Tensor& to, int64_t to_sample, int axis) {
  const auto at = static_cast<size_t>(axis);
  int64_t outer = 1, inner = static_cast<int64_t>(dtype_bytes(from.dtype()));
  for (size_t i = 0; i < from.shape().size(); ++i) {
    if (i < at) outer *= from.shape()[i];
    if (i > at) inner *= from.shape()[i];
  }
  for (int64_t o = 0; o < outer; ++o) {
    std::memcpy(
        static_cast<std::byte*>(to.mutable_data()) + (o * to.shape()[at] + to_sample) * inner,
        static_cast<const std::byte*>(from.data()) + (o * from.shape()[at] + from_sample) * inner,
        static_cast<size_t>(inner));
  }
}

}  // namespace runtime

using runtime::StateMemory;
using runtime::StatePair;

Context::State::Turn::Turn(State& of) : of_(of) {
  if (!of.taken.flag.exchange(true)) return;
  throw_invalid(
      "context: another call is running with it; give every thread a context of its own, as fork() "
      "makes");
}

void Context::State::make_room(int64_t count) {
  if (max_length > 0 && used + count > max_length) {
    throw_invalid("context: {} places are used and {} are to come, but max_length is {}", used,
                  count, max_length);
  }
  const bool empty = used == 0;
  const auto [most, input] = runtime::most_past(*layout);
  if (used > most) {
    throw_invalid("context: {} places are used, and input {} takes at most {}", used, input, most);
  }
  const auto mask = static_cast<size_t>(layout->mask);
  const int64_t most_seen = layout->ranges[mask][1].most;
  if (count > most_seen - used) {
    throw_invalid("context: {} places are used and {} are to come, but input {} takes at most {}",
                  used, count, layout->names[mask], most_seen);
  }
  int64_t wanted = capacity;
  if (used > capacity) wanted = runtime::rounded(used + 1);
  if (empty && count > capacity) {
    wanted = runtime::rounded(std::max(count + runtime::kSpare,
                                       std::min(max_length, std::max(count, runtime::kReserve))));
  }
  if (max_length > 0 && wanted != capacity) {
    // No more than the caller needs, nearly: a model may have a table for so many places only.
    const int64_t enough = round_up(max_length, 2 * runtime::kSpare) - 1;
    wanted = std::min(wanted, std::max({enough, used, empty ? count : 0, capacity}));
  }
  wanted = std::min(wanted, std::max(most, empty ? count : int64_t{0}));
  wanted = std::min(wanted, std::max({used, empty ? count : 0, most_seen - (empty ? 1 : count)}));
  // A program is made for a number of rows, so there are few of those.
  int64_t spare = runtime::slack_of(wanted);
  if (!empty && count > spare) spare = runtime::rounded(count);
  const int64_t needed = wanted + spare;
  if (wanted != capacity || needed > rows) {
    const int64_t new_rows = std::max(needed, wanted == capacity ? rows : needed);
    std::vector<Tensor> grown(memory.size());  // all of it, before anything changes
    for (size_t i = 0; i < memory.size(); ++i) {
      if (layout->pairs[i].axis >= 0) grown[i] = runtime::new_memory(memory[i], new_rows);
    }
    for (size_t i = 0; i < memory.size(); ++i) {
      if (layout->pairs[i].axis < 0) continue;
      StateMemory& m = memory[i];
      if (used > 0) {
        runtime::move_rows(m, runtime::bytes_of(std::as_const(m.data)), rows, end - used,
                           runtime::bytes_of(grown[i]), new_rows, wanted - used, used);
      }
      m.data = std::move(grown[i]);
    }
    capacity = wanted;
    rows = new_rows;
    end = wanted;
  } else if (empty) {
    end = capacity;
  } else if (end + count > rows) {
    for (size_t i = 0; i < memory.size(); ++i) {
      if (layout->pairs[i].axis < 0) continue;
      StateMemory& m = memory[i];
      std::byte* data = runtime::bytes_of(m.data);
      runtime::move_rows(m, data, rows, end - used, data, rows, capacity - used, used);
    }
    end = capacity;
  }
}

// All of the memory: places that are hidden are multiplied by zero, and what an earlier
// conversation left there may be NaN.
void Context::State::clear_places() {
  used = 0;
  end = capacity;
  visible.assign(static_cast<size_t>(batch), {});
  for (size_t i = 0; i < memory.size(); ++i) {
    Tensor& data = memory[i].data;
    if (layout->pairs[i].axis >= 0 && data.defined()) {
      std::memset(data.mutable_data(), 0, data.bytes());
    }
  }
}

void Context::State::clear() {
  clear_places();
  for (size_t i = 0; i < memory.size(); ++i) {
    Tensor& data = memory[i].data;
    if (layout->pairs[i].axis < 0) std::memset(data.mutable_data(), 0, data.bytes());
  }
}

std::unique_ptr<Context::State> runtime::new_state(const Model& model,
                                                   std::shared_ptr<const StateLayout> layout,
                                                   int64_t batch, int64_t max_length) {
  // Far more places than fit anywhere, and far from an overflow.
  constexpr int64_t kMostPlaces = int64_t{1} << 40;
  auto state = std::make_unique<Context::State>(Context::State{.model = model});
  state->layout = std::move(layout);
  state->batch = batch;
  state->max_length = std::min(max_length, kMostPlaces);
  for (const StatePair& pair : state->layout->pairs) {
    state->memory.push_back(make_memory(*state->layout, pair, batch));
  }
  state->clear();
  return state;
}

Context::Context(std::unique_ptr<State> state) : state_(std::move(state)) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

Context::Context(const Model& model, const ContextOptions& options) {
  if (options.batch < 1) throw_invalid("batch: expected 1 or more, got {}", options.batch);
  if (options.max_length < 0) {
    throw_invalid("max_length: expected 0 (any) or more, got {}", options.max_length);
  }
  state_ = runtime::new_state(model, runtime::describe_state(model, options.state), options.batch,
                              options.max_length);
}

Context Context::fork() const {
  const State::Turn turn(*state_);
  auto copy = std::make_unique<State>(*state_);
  for (StateMemory& m : copy->memory) {
    m.data = runtime::copy_of(m.data);
    m.other = runtime::copy_of(m.other);
  }
  return Context(std::move(copy));
}

void Context::reset() {
  const State::Turn turn(*state_);
  state_->clear();
}

void Context::reorder(std::span<const int64_t> from) {
  State& s = *state_;
  const State::Turn turn(s);
  if (static_cast<int64_t>(from.size()) != s.batch) {
    throw_invalid("reorder: expected {} samples, got {}", s.batch, from.size());
  }
  for (int64_t i : from) {
    if (i < 0 || i >= s.batch) {
      throw_invalid("reorder: expected samples 0 to {}, got {}", s.batch - 1, i);
    }
  }
  if (s.batch == 1) return;
  // All is checked before anything changes.
  for (size_t i = 0; i < s.memory.size(); ++i) {
    const StatePair& pair = s.layout->pairs[i];
    if (pair.axis >= 0 || s.memory[i].batch_axis >= 0) continue;
    throw_invalid("reorder: it is not clear which dimension of {} {} is the batch", pair.input,
                  shape_text(s.memory[i].shape));
  }
  for (size_t i = 0; i < s.memory.size(); ++i) {
    StateMemory& m = s.memory[i];
    const StatePair& pair = s.layout->pairs[i];
    if (!m.data.defined()) continue;
    // Memory that grows is bytes; all that counts is how many belong to a sample.
    const int axis = pair.axis < 0 ? m.batch_axis : 0;
    const auto bytes = static_cast<int64_t>(m.data.bytes());
    Shape shape = pair.axis < 0 ? m.data.shape() : Shape{s.batch, bytes / s.batch};
    const Tensor before = runtime::copy_of(m.data).reshaped(shape);
    Tensor after = m.data.reshaped(shape);
    for (int64_t b = 0; b < s.batch; ++b) {
      runtime::copy_sample(before, from[static_cast<size_t>(b)], after, b, axis);
    }
  }
  const auto before = s.visible;
  for (size_t b = 0; b < before.size(); ++b) {
    s.visible[b] = before[static_cast<size_t>(from[b])];
  }
}

int64_t Context::batch() const { return state_->batch; }
int64_t Context::length() const { return state_->used; }
int64_t Context::capacity() const { return state_->capacity; }
std::vector<int64_t> Context::lengths() const {
  std::vector<int64_t> lengths;
  for (const auto& places : state_->visible) {
    lengths.push_back(std::count(places.begin(), places.end(), 1));
  }
  return lengths;
}
int64_t Context::memory_bytes() const {
  int64_t sum = 0;
  for (const StateMemory& m : state_->memory) {
    for (const Tensor* tensor : {&m.data, &m.other}) {
      if (tensor->defined()) sum += static_cast<int64_t>(tensor->bytes());
    }
  }
  return sum;
}
const std::vector<std::string>& Context::inputs() const { return state_->layout->inputs; }
const std::vector<std::string>& Context::optional_inputs() const {
  return state_->layout->optional;
}
const std::vector<std::string>& Context::outputs() const { return state_->layout->outputs; }

namespace {
constexpr std::string_view kVisible = "attention_mask";
}

std::map<std::string, Tensor> Context::save() const {
  const State::Turn turn(*state_);
  return state_->save();
}

std::map<std::string, Tensor> Context::State::save() const {
  std::map<std::string, Tensor> saved;
  for (size_t i = 0; i < memory.size(); ++i) {
    const StateMemory& m = memory[i];
    const StatePair& pair = layout->pairs[i];
    if (pair.axis < 0) {
      saved.emplace(pair.input, runtime::copy_of(m.data));
      continue;
    }
    Shape shape = m.shape;
    shape[static_cast<size_t>(pair.axis)] = used;
    Tensor tensor(m.dtype, shape);
    if (used > 0) {
      runtime::move_rows(m, runtime::bytes_of(m.data), rows, end - used, runtime::bytes_of(tensor),
                         used, 0, used);
    }
    saved.emplace(pair.input, std::move(tensor));
  }
  if (layout->grows) {
    Tensor mask(DType::kInt64, {batch, used});
    auto values = mask.mutable_values<int64_t>();
    size_t at = 0;
    for (const auto& places : visible) {
      for (uint8_t v : places) values[at++] = v;
    }
    saved.emplace(kVisible, std::move(mask));
  }
  return saved;
}

void Context::restore(const std::map<std::string, Tensor>& saved) {
  State& s = *state_;
  const State::Turn turn(s);
  const auto given = [&](const std::string& name) -> const Tensor& {
    const auto at = saved.find(name);
    if (at == saved.end()) throw_invalid("restore: {} is missing", name);
    return at->second;
  };
  int64_t used = 0;
  const Tensor* mask = nullptr;
  if (s.layout->grows) {
    mask = &given(std::string(kVisible));
    if (mask->rank() != 2 || mask->dim(0) != s.batch || mask->dtype() != DType::kInt64) {
      throw_invalid("restore: {}: expected int64 [{}, places], got {} {}", kVisible, s.batch,
                    dtype_name(mask->dtype()), shape_text(mask->shape()));
    }
    used = mask->dim(1);
    if (s.max_length > 0 && used > s.max_length) {
      throw_invalid("restore: {} places, but max_length is {}", used, s.max_length);
    }
  }
  // All is checked before anything changes.
  for (size_t i = 0; i < s.memory.size(); ++i) {
    const StatePair& pair = s.layout->pairs[i];
    Shape shape = s.memory[i].shape;
    if (pair.axis >= 0) shape[static_cast<size_t>(pair.axis)] = used;
    const Tensor& tensor = given(pair.input);
    if (tensor.dtype() == s.memory[i].dtype && tensor.shape() == shape) continue;
    throw_invalid("restore: {}: expected {} {}, got {} {}", pair.input,
                  dtype_name(s.memory[i].dtype), shape_text(shape), dtype_name(tensor.dtype()),
                  shape_text(tensor.shape()));
  }
  s.clear();
  if (used > 0) s.make_room(used);
  for (size_t i = 0; i < s.memory.size(); ++i) {
    StateMemory& m = s.memory[i];
    const Tensor& tensor = given(s.layout->pairs[i].input);
    if (s.layout->pairs[i].axis < 0) {
      m.data = runtime::copy_of(tensor);
    } else if (used > 0) {
      runtime::move_rows(m, runtime::bytes_of(tensor), used, 0, runtime::bytes_of(m.data), s.rows,
                         s.end - used, used);
    }
  }
  s.used = used;
  if (mask == nullptr) return;
  const auto values = mask->values<int64_t>();
  for (int64_t b = 0; b < s.batch; ++b) {
    auto& places = s.visible[static_cast<size_t>(b)];
    for (int64_t p = 0; p < used; ++p) {
      places.push_back(values[static_cast<size_t>(b * used + p)] != 0);
    }
  }
}

}  // namespace stretto
