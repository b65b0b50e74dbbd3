#include "stretto/runtime/lengths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/runtime/measure_model.h"
#include "stretto/tensor/compare.h"
#include "stretto/tensor/narrow.h"

namespace stretto::runtime {
namespace {

// Returns the index of the first element that is neither 0 nor 1, or -1.
template <typename T>
int64_t add_tokens(const void* mask, int64_t count, int64_t& tokens) {
  const T* values = static_cast<const T*>(mask);
  bool odd = false;
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool one = values[i] == T{1};
    sum += one ? 1 : 0;
    odd |= !one && values[i] != T{0};
  }
  tokens += sum;
  if (!odd) return -1;
  return std::find_if(values, values + count,
                      [](T value) { return value != T{0} && value != T{1}; }) -
         values;
}

int64_t add_tokens_of(DType dtype, const Shape& shape, const void* mask, int64_t& tokens) {
  const int64_t count = element_count(shape);
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return add_tokens<uint8_t>(mask, count, tokens);
    case DType::kInt8:
      return add_tokens<int8_t>(mask, count, tokens);
    case DType::kInt16:
      return add_tokens<int16_t>(mask, count, tokens);
    case DType::kUInt16:
      return add_tokens<uint16_t>(mask, count, tokens);
    case DType::kInt32:
      return add_tokens<int32_t>(mask, count, tokens);
    case DType::kUInt32:
      return add_tokens<uint32_t>(mask, count, tokens);
    case DType::kInt64:
      return add_tokens<int64_t>(mask, count, tokens);
    case DType::kUInt64:
      return add_tokens<uint64_t>(mask, count, tokens);
    case DType::kFloat64:
      return add_tokens<double>(mask, count, tokens);
    case DType::kFloat32:
      return add_tokens<float>(mask, count, tokens);
    default: {
      const Tensor wide = Tensor(dtype, shape, mask, nullptr).converted(DType::kFloat32);
      return add_tokens<float>(wide.data(), count, tokens);
    }
  }
}

bool can_be_mask(DType dtype) {
  return dtype == DType::kBool || is_integer(dtype) || (is_float(dtype) && !is_narrow(dtype));
}

// Whether element i of an output is of padding, by its leading dimensions.
class Padding {
 public:
  Padding(const Tensor& mask, const Shape& output) : tokens_(mask.as_doubles()) {
    const int64_t places = mask.count();
    int64_t lead = 1;
    size_t axes = 0;
    while (axes < output.size() && axes < 2 && lead != places) lead *= output[axes++];
    const bool pair = axes == 2 && output[0] == mask.dim(0) && output[1] == mask.dim(1);
    if (lead == places && (pair || axes == 1)) row_ = element_count(output) / places;
  }
  bool operator()(int64_t i) const {
    return row_ > 0 && tokens_[static_cast<size_t>(i / row_)] == 0;
  }

 private:
  std::vector<double> tokens_;
  int64_t row_ = 0;  // elements of a token; 0: the output has no tokens
};

// How many elements differ. A few indices and bools may: a tie falls either way.
int64_t different(const Tensor& a, const Tensor& b) {
  const size_t width = dtype_bytes(a.dtype());
  const auto* x = static_cast<const std::byte*>(a.data());
  const auto* y = static_cast<const std::byte*>(b.data());
  int64_t count = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    count += std::memcmp(x + static_cast<size_t>(i) * width, y + static_cast<size_t>(i) * width,
                         width) != 0;
  }
  return count;
}

}  // namespace

int find_mask(const std::string& lengths, const std::vector<TensorSpec>& inputs) {
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorSpec& input = inputs[i];
    names.push_back(input.name);
    if (input.name != lengths) continue;
    if (input.shape.size() != 2 || !input.other.empty() || !can_be_mask(input.dtype)) {
      throw_invalid(
          "lengths: expected an input [batch, length] that is 1 for tokens and 0 for padding, and "
          "{} "
          "is {} {}",
          lengths, dtype_name(input.dtype), shape_text(input.shape));
    }
    return static_cast<int>(i);
  }
  throw_invalid("lengths: the model has no input '{}'; it has: {}", lengths,
                fmt::join(names, ", "));
}

std::vector<TensorSpec> input_specs(const ir::Graph& graph) {
  std::vector<TensorSpec> specs;
  for (ir::ValueId id : graph.inputs) {
    const ir::Value& value = graph.value(id);
    specs.push_back({value.name, value.dtype, *value.shape});
  }
  return specs;
}

OptimizeOptions with_mask(const OptimizeOptions& options, const std::vector<TensorSpec>& inputs) {
  const TensorSpec& mask = inputs[static_cast<size_t>(find_mask(options.lengths, inputs))];
  OptimizeOptions masked = options;
  if (!masked.inputs.contains(mask.name) && is_float(mask.dtype)) {
    Tensor ones(DType::kFloat32, mask.shape);
    std::ranges::fill(ones.mutable_values<float>(), 1.0f);
    masked.inputs[mask.name] = ones.converted(mask.dtype);
  }
  return masked;
}

int64_t count_tokens(const std::string& input, DType dtype, const Shape& shape, const void* mask) {
  if (reinterpret_cast<uintptr_t>(mask) % dtype_bytes(dtype) != 0) {
    Tensor aligned(dtype, shape);
    std::memcpy(aligned.mutable_data(), mask, aligned.bytes());
    return count_tokens(input, dtype, shape, aligned.data());
  }
  int64_t tokens = 0;
  const int64_t odd = add_tokens_of(dtype, shape, mask, tokens);
  if (odd >= 0) {
    const Tensor all = Tensor(dtype, shape, mask, nullptr).converted(DType::kFloat64);
    throw_invalid(
        "input {}: expected 1 for tokens and 0 for padding, because the model was optimised with "
        "lengths, got {} at [{}, {}]",
        input, all.values<double>()[static_cast<size_t>(odd)], odd / shape[1], odd % shape[1]);
  }
  return tokens;
}

int64_t rounded_rows(int64_t tokens, int64_t places) {
  const auto top =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(tokens, 1))));
  const int64_t step = std::max<int64_t>(8, int64_t{1} << std::max(0, top - 6));
  return std::min(places, std::max(step, (tokens + step - 1) / step * step));
}

std::string ragged_note(const passes::Ragged& ragged) {
  std::string note = fmt::format("lengths by {}: {} of {} attentions work on real tokens only",
                                 ragged.mask, ragged.packed, ragged.attentions);
  const auto add = [&](std::string_view what, const std::vector<std::string>& list) {
    if (list.empty()) return;
    constexpr size_t kShown = 4;
    const size_t shown = std::min(list.size(), kShown);
    note += fmt::format("; {}: {}", what, fmt::join(list.begin(), list.begin() + shown, ", "));
    if (list.size() > shown) note += fmt::format(" and {} more", list.size() - shown);
  };
  add("not packed", ragged.not_packed);
  add("on padded samples", ragged.unpacked);
  return note;
}

Tensor mixed_lengths(const TensorSpec& mask) {
  const int64_t batch = mask.shape[0], length = mask.shape[1];
  Tensor tensor(DType::kInt64, mask.shape);
  const auto values = tensor.mutable_values<int64_t>();
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t tokens = std::min(length, 1 + (b * 37 + length / 2) % length);
    std::fill_n(values.begin() + b * length, tokens, 1);
  }
  return tensor.converted(mask.dtype);
}

Tensor without_padding(const Tensor& output, const Tensor& mask) {
  const Padding padding(mask, output.shape());
  Tensor cleared(output.dtype(), output.shape());
  const size_t width = dtype_bytes(output.dtype());
  const auto* from = static_cast<const std::byte*>(output.data());
  auto* to = static_cast<std::byte*>(cleared.mutable_data());
  for (int64_t i = 0; i < output.count(); ++i) {
    const size_t at = static_cast<size_t>(i) * width;
    if (padding(i)) {
      std::memset(to + at, 0, width);
    } else {
      std::memcpy(to + at, from + at, width);
    }
  }
  return cleared;
}

void verify_ragged(const Program& padded, const Program& ragged, int mask,
                   const std::vector<Tensor>& inputs, double bound, const std::string& file) {
  std::vector<Tensor> fed = inputs;
  const Tensor lengths = mixed_lengths(padded.inputs[static_cast<size_t>(mask)]);
  fed[static_cast<size_t>(mask)] = lengths;
  const std::vector<Tensor> expected = run_program(padded, fed), got = run_program(ragged, fed);
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor ours = without_padding(got[i], lengths);
    const Tensor theirs = without_padding(expected[i], lengths);
    std::string how;
    if (is_float(ours.dtype())) {
      const OutputError error = compare(padded.outputs[i].name, ours, theirs);
      if (error.relative_to_max > bound) {
        how = fmt::format("by {:.1e} of its largest value (allowed {:.0e})", error.relative_to_max,
                          bound);
      }
    } else if (const int64_t count = different(ours, theirs);
               count > std::max<int64_t>(1, ours.count() / 100)) {
      how = fmt::format("in {} of {} numbers", count, ours.count());
    }
    if (how.empty()) continue;
    throw_invalid(
        "{}: lengths: output {} depends on what stands where {} is 0: without padding it differs "
        "{}, so the model has to run on padded samples; leave lengths out",
        file, padded.outputs[i].name, padded.inputs[static_cast<size_t>(mask)].name, how);
  }
}

}  // namespace stretto::runtime
