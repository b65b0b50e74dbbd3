// Products of quantised tensors are those of small integers, which the importer writes down in
// int32 or float64: (Cast(a) - Cast(a's zero point)) times the same of b. Where their sums become
// float32 anyway, they are products in float32: exact as long as sums are below 2^24, and within
// float32's rounding of the sums above. What was quantised to 8 bits just before stays floats.
//
// Sums that stay integers, as those to which a quantised bias is added, are products in float32 too
// where the weights show that no sum reaches 2^24; those that might are cut along the channels into
// sums that do not.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "stretto/base/cpu.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/byte_operand.h"
#include "stretto/passes/conv_window.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"
#include "stretto/tensor/narrow.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"integer-product", "integer-sums", "exact-linear"};

constexpr double kSmall = 510;      // differences of two numbers of 8 bits
constexpr double kExact = 1 << 24;  // float32 holds every integer below

bool has_8_bits(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUInt8; }

double largest(const Tensor& tensor) {
  double most = 0;
  for (const double value : tensor.as_doubles()) most = std::max(most, std::fabs(value));
  return most;
}

// The largest magnitude that the elements of an operand may have; infinity where it is not known.
double magnitude(const Rewriter& graph, ValueId id) {
  if (const Tensor* constant = graph.constant(id)) return largest(*constant);
  if (const int cast = graph.maker(id, "Cast"); cast >= 0) {
    return has_8_bits(graph.dtype(graph.node(cast).inputs[0])) ? kSmall / 2 : INFINITY;
  }
  const int difference = graph.maker(id, "Sub");
  if (difference < 0) return INFINITY;
  const std::vector<ValueId>& of = graph.node(difference).inputs;
  const int a = graph.maker(of[0], "Cast"), b = graph.maker(of[1], "Cast");
  if (a >= 0 && b >= 0) {
    const DType dtype = graph.dtype(graph.node(a).inputs[0]);
    if (has_8_bits(dtype) && graph.dtype(graph.node(b).inputs[0]) == dtype) return kSmall / 2;
  }
  return magnitude(graph, of[0]) + magnitude(graph, of[1]);
}

class Floats {
 public:
  Floats(Rewriter& graph, PassContext& context, int anchor)
      : graph_(graph), context_(context), anchor_(anchor) {}

  // A small integer operand, or a bias, as float32.
  ValueId of(ValueId id) {
    if (const Tensor* constant = graph_.constant(id)) {
      const Tensor from = *constant;
      return graph_.add_constant(graph_.name(id) + ".floats",
                                 context_.derive_one("in floats", std::array{from}, [&] {
                                   return from.converted(DType::kFloat32);
                                 }));
    }
    if (const int difference = graph_.maker(id, "Sub"); difference >= 0) {
      const std::vector<ValueId> from = graph_.node(difference).inputs;
      return insert("Sub", {of(from[0]), of(from[1])}, graph_.shape(id));
    }
    const int cast = graph_.maker(id, "Cast");
    return cast_of(cast >= 0 ? graph_.node(cast).inputs[0] : id);
  }

 private:
  ValueId cast_of(ValueId x) {
    if (const int n = graph_.maker(x, "QuantizeLinear"); n >= 0) {
      if (const ValueId rounded = quantized(graph_.node(n), graph_.dtype(x)); rounded != kNone) {
        return rounded;
      }
    }
    Attributes attributes;
    attributes.set("to", std::string("float32"));
    return graph_.insert(anchor_, "Cast", {x}, attributes, DType::kFloat32, graph_.shape(x),
                         graph_.name(x) + ".floats");
  }

  // clip(round(x / scale) + zero point) of one scale for all; kNone for other ones.
  ValueId quantized(const Node& node, DType dtype) {
    const std::vector<ValueId> inputs = node.inputs;
    const ValueId x = inputs[0], scale = inputs[1];
    const bool has_zero = inputs.size() > 2 && inputs[2] != kNone;
    if (!has_8_bits(dtype) || graph_.dtype(x) != DType::kFloat32 ||
        graph_.dtype(scale) != DType::kFloat32 || !graph_.shape(scale).empty() ||
        (has_zero && !graph_.shape(inputs[2]).empty()) ||
        node.attributes.text("precision", "float32") != "float32") {
      return kNone;
    }
    const Shape shape = graph_.shape(x);
    ValueId y = insert("Round", {insert("Div", {x, scale}, shape)}, shape);
    if (has_zero) y = insert("Add", {y, cast_of(inputs[2])}, shape);
    const auto [low, high] = integer_range(dtype);
    return insert("Clip", {y, number(low), number(high)}, shape);
  }

  ValueId number(double value) {
    const auto rounded = static_cast<float>(value);
    return graph_.add_constant("bound", Tensor::of<float>({}, {&rounded, 1}));
  }

  ValueId insert(std::string_view op, std::vector<ValueId> inputs, Shape shape) {
    return graph_.insert(anchor_, op, std::move(inputs), {}, DType::kFloat32, std::move(shape),
                         "floats." + std::string(op));
  }

  Rewriter& graph_;
  PassContext& context_;
  const int anchor_;
};

// The casts to float32 that `id` goes into, through one to int32 perhaps; false if it also has
// other uses.
bool casts_to_floats(const Rewriter& graph, ValueId id, std::vector<int>& casts) {
  if (graph.is_output(id) || graph.users(id).empty()) return false;
  return std::all_of(graph.users(id).begin(), graph.users(id).end(), [&](int user) {
    if (!graph.is(user, "Cast")) return false;
    const ValueId to = graph.node(user).outputs[0];
    if (graph.dtype(to) == DType::kInt32) return casts_to_floats(graph, to, casts);
    casts.push_back(user);
    return graph.dtype(to) == DType::kFloat32;
  });
}

// Ranges of channels, one behind the other, within which no sum of products of `x_most` and the
// weights reaches 2^24; empty if a single channel's may. The weight of a convolution is [output]
// [channel][tap], else [channel][output].
std::vector<int64_t> exact_ends(const Tensor& weight, bool conv, double x_most) {
  const std::vector<double> values = weight.as_doubles();
  const int64_t outputs = weight.dim(conv ? 0 : 1), channels = weight.dim(conv ? 1 : 0);
  const int64_t taps = conv ? weight.count() / std::max<int64_t>(outputs * channels, 1) : 1;
  std::vector<double> sums(static_cast<size_t>(outputs), 0), one(sums.size());
  std::vector<int64_t> ends;
  const auto fits = [x_most](double sum) { return sum * x_most < kExact; };
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t k = 0; k < outputs; ++k) {
      double sum = 0;
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t at = conv ? (k * channels + c) * taps + t : c * outputs + k;
        sum += std::fabs(values[static_cast<size_t>(at)]);
      }
      one[static_cast<size_t>(k)] = sum;
    }
    bool more = true;
    for (size_t k = 0; k < one.size(); ++k) {
      if (!fits(one[k])) return {};
      more = more && fits(sums[k] + one[k]);
    }
    if (!more) ends.push_back(c);
    for (size_t k = 0; k < one.size(); ++k) sums[k] = more ? sums[k] + one[k] : one[k];
  }
  ends.push_back(channels);
  return ends;
}

// Channels [begin, end) of a float32 weight.
Tensor weight_part(const Tensor& weight, bool conv, int64_t begin, int64_t end) {
  Shape shape = weight.shape();
  const int64_t outer = conv ? shape[0] : 1, channels = shape[conv ? 1 : 0];
  const int64_t inner = weight.count() / (outer * channels);
  shape[conv ? 1 : 0] = end - begin;
  Tensor part(DType::kFloat32, shape);
  const float* from = weight.values<float>().data();
  float* to = part.mutable_values<float>().data();
  for (int64_t o = 0; o < outer; ++o) {
    const float* row = from + o * channels * inner;
    to = std::copy(row + begin * inner, row + end * inner, to);
  }
  return part;
}

// Products of bytes with a constant matrix of integers that int8 holds once they are shifted: with
// w' = w + shift,
//   sum_k (x - zero) w = sum_k (x - zero) w' - shift sum_k (x - zero),
// each sum less than 2^24, so that floats hold them. kNone where that is not so.
ValueId integer_product(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Tensor* found = graph.constant(node.inputs[1]);
  const Shape shape = graph.shape(node.outputs[0]);
  if (usable_isa() == Isa::kPortable || !graph.is(n, "MatMul") || found == nullptr ||
      found->rank() != 2 || found->count() == 0 || graph.shape(node.inputs[0]).empty() ||
      element_count(shape) == 0) {
    return kNone;
  }
  const Tensor weight = *found;
  const int64_t steps = weight.dim(0);
  const std::vector<double> values = weight.as_doubles();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double shift = *low < -128 ? -128 - *low : *high > 127 ? 127 - *high : 0;
  if (steps > kMostByteSteps || *low + shift < -128 || *high + shift > 127) return kNone;
  std::vector<double> most(static_cast<size_t>(weight.dim(1)), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    most[i % most.size()] += std::max(std::fabs(values[i]), std::fabs(values[i] + shift));
  }
  const double largest = *std::max_element(most.begin(), most.end());
  const double of_rows = std::fabs(shift) * static_cast<double>(steps);
  if (std::max(largest, of_rows) * kSmall / 2 >= kExact) return kNone;
  const auto bytes = bytes_of(graph, node.inputs[0]);
  if (!bytes || !context.allow("exact-linear", node.name)) return kNone;
  const auto number = [&](double value) {
    const auto rounded = static_cast<float>(value);
    return graph.add_constant("number", Tensor::of<float>({}, {&rounded, 1}));
  };
  const auto insert = [&](std::string_view op, std::vector<ValueId> inputs, Shape of) {
    return graph.insert(n, op, std::move(inputs), {}, DType::kFloat32, std::move(of),
                        node.name + "." + std::string(op));
  };
  const auto linear = [&](const Tensor& by) {
    Shape of = shape;
    of.back() = by.dim(1);
    return insert("stretto.IntegerLinear",
                  {bytes->x, graph.add_constant(node.name + ".bytes", by), number(1), bytes->zero},
                  std::move(of));
  };
  const ValueId sums = linear(
      context.derive_one(fmt::format("in bytes, shifted {}", shift), std::array{weight}, [&] {
        Tensor shifted(DType::kInt8, weight.shape());
        std::ranges::transform(values, shifted.mutable_values<int8_t>().begin(),
                               [&](double v) { return static_cast<int8_t>(v + shift); });
        return shifted;
      }));
  if (shift == 0) return sums;
  Tensor ones(DType::kInt8, {steps, 1});
  std::ranges::fill(ones.mutable_values<int8_t>(), int8_t{1});
  const ValueId rows = linear(ones);
  return insert("Sub", {sums, insert("Mul", {rows, number(shift)}, graph.shape(rows))}, shape);
}

// Products whose sums stay integers.
class IntegerSums {
 public:
  IntegerSums(Rewriter& graph, PassContext& context, int n)
      : graph_(graph), context_(context), n_(n), node_(graph.node(n)) {}

  void rewrite() {
    conv_ = node_.op->name == "Conv";
    const ValueId sums = node_.outputs[0];
    const Tensor* weight = graph_.constant(node_.inputs[1]);
    const bool has_bias = node_.inputs.size() > 2 && node_.inputs[2] != kNone;
    if (weight == nullptr || has_bias || element_count(graph_.shape(sums)) == 0 ||
        weight->count() == 0 || graph_.shape(node_.inputs[0]).size() < 2) {
      return;
    }
    if (conv_ ? weight->rank() > 4 || !all_users_cast(sums) : weight->rank() != 2) return;
    if (const ValueId product = integer_product(graph_, n_, context_); product != kNone) {
      return replace(product);
    }
    const std::vector<int64_t> ends =
        exact_ends(*weight, conv_, magnitude(graph_, node_.inputs[0]));
    if (ends.empty() || (ends.size() > 1 && node_.attributes.integer("group", 1) != 1)) return;
    if (!context_.allow("integer-sums", node_.name)) return;
    if (ends.size() == 1) {
      replace(product(whole_x(), whole_weight()));
    } else {
      replace_by_sum(ends);
    }
  }

 private:
  // The sums of a convolution are made in float64, and become int32 in casts.
  bool all_users_cast(ValueId sums) const {
    const std::vector<int>& users = graph_.users(sums);
    return !graph_.is_output(sums) && std::all_of(users.begin(), users.end(), [&](int user) {
      return graph_.is(user, "Cast") && graph_.dtype(graph_.node(user).outputs[0]) == DType::kInt32;
    });
  }

  ValueId whole_x() { return Floats(graph_, context_, n_).of(node_.inputs[0]); }
  ValueId whole_weight() { return Floats(graph_, context_, n_).of(node_.inputs[1]); }

  ValueId product(ValueId x, ValueId weight) {
    const Shape shape = graph_.shape(node_.outputs[0]);
    const std::string name = node_.name + ".floats";
    if (!conv_) return graph_.insert(n_, "MatMul", {x, weight}, {}, DType::kFloat32, shape, name);
    Attributes attributes =
        window_attributes(conv_window(graph_, node_, false), node_.attributes.integer("group", 1));
    attributes.set("exact", int64_t{1});
    return graph_.insert(n_, "stretto.Conv", {x, weight}, attributes, DType::kFloat32, shape, name);
  }

  // `id` as another type, before node `anchor`.
  ValueId cast(int anchor, ValueId id, DType dtype) {
    Attributes attributes;
    attributes.set("to", std::string(dtype_name(dtype)));
    return graph_.insert(anchor, "Cast", {id}, attributes, dtype, graph_.shape(id),
                         graph_.name(id) + "." + std::string(dtype_name(dtype)));
  }

  // The int32 values that the sums become: those of the casts, or the product itself.
  std::vector<int> places() const {
    return conv_ ? graph_.users(node_.outputs[0]) : std::vector{n_};
  }

  void replace(ValueId product) {
    for (const int place : places()) {
      if (add_in_floats(place, product)) continue;
      Attributes attributes;
      attributes.set("to", std::string("int32"));
      graph_.become(place, "Cast", {product}, attributes);
    }
  }

  void replace_by_sum(const std::vector<int64_t>& ends) {
    const ValueId x = whole_x();
    const Tensor weight = *graph_.constant(whole_weight());
    const Shape shape = graph_.shape(node_.outputs[0]);
    const auto numbers = [&](int64_t v) {
      return graph_.add_constant("channels", Tensor::int64s(std::vector<int64_t>{v}));
    };
    ValueId sum = kNone;
    int64_t begin = 0;
    for (const int64_t end : ends) {
      Shape part_shape = graph_.shape(x);
      const size_t axis = conv_ ? 1 : part_shape.size() - 1;
      part_shape[axis] = end - begin;
      const ValueId part_x = graph_.insert(
          n_, "Slice",
          {x, numbers(begin), numbers(end), numbers(static_cast<int64_t>(axis)), numbers(1)}, {},
          DType::kFloat32, part_shape, node_.name + ".channels");
      const Tensor part =
          context_.derive_one(fmt::format("channels {}-{}", begin, end), std::array{weight},
                              [&] { return weight_part(weight, conv_, begin, end); });
      const ValueId part_sum = cast(
          n_, product(part_x, graph_.add_constant(node_.name + ".weight", part)), DType::kInt32);
      sum = sum == kNone ? part_sum
                         : graph_.insert(n_, "Add", {sum, part_sum}, {}, DType::kInt32, shape,
                                         node_.name + ".sum");
      begin = end;
    }
    for (const int place : places()) graph_.become(place, "Identity", {sum}, {});
  }

  // Where all that becomes of an int32 value is its sum with integers that float32 holds, as
  // float32: adds the floats, which rounds once as the cast would.
  bool add_in_floats(int place, ValueId product) {
    const ValueId value = graph_.node(place).outputs[0];
    const int add = graph_.only_user(value);
    if (add < 0 || !graph_.is(add, "Add")) return false;
    const Node sum = graph_.node(add);
    if (sum.inputs[0] == sum.inputs[1]) return false;
    const ValueId total = sum.outputs[0];
    const ValueId other = sum.inputs[sum.inputs[0] == value ? 1 : 0];
    std::vector<int> casts;
    if (!casts_to_floats(graph_, total, casts) || !float32_holds(other)) return false;
    const ValueId added =
        graph_.insert(add, "Add", {product, floats_of(add, other)}, {}, DType::kFloat32,
                      graph_.shape(total), graph_.name(total) + ".floats");
    for (const int user : casts) graph_.become(user, "Identity", {added}, {});
    return true;
  }

  // What was float32 before is an integer that float32 holds.
  bool float32_holds(ValueId id) const {
    if (const Tensor* constant = graph_.constant(id)) return largest(*constant) < kExact;
    if (const int reshape = graph_.maker(id, "Reshape"); reshape >= 0) {
      return float32_holds(graph_.node(reshape).inputs[0]);
    }
    const int cast = graph_.maker(id, "Cast");
    return cast >= 0 && graph_.dtype(graph_.node(cast).inputs[0]) == DType::kFloat32;
  }

  ValueId floats_of(int anchor, ValueId id) {
    if (const Tensor* constant = graph_.constant(id)) {
      return graph_.add_constant(graph_.name(id) + ".floats", constant->converted(DType::kFloat32));
    }
    if (const int reshape = graph_.maker(id, "Reshape"); reshape >= 0) {
      const ValueId from = floats_of(anchor, graph_.node(reshape).inputs[0]);
      return graph_.insert(anchor, "Reshape",
                           {from, graph_.add_constant("shape", Tensor::int64s(graph_.shape(id)))},
                           {}, DType::kFloat32, graph_.shape(id), graph_.name(id) + ".floats");
    }
    const ValueId from = graph_.node(graph_.maker(id, "Cast")).inputs[0];
    const int rounded = graph_.producer(from);
    for (std::string_view op : {"Floor", "Round", "Ceil"}) {
      if (rounded >= 0 && graph_.is(rounded, op)) return from;
    }
    return cast(anchor, id, DType::kFloat32);
  }

  Rewriter& graph_;
  PassContext& context_;
  const int n_;
  const Node node_;
  bool conv_ = false;
};

void rewrite(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const ValueId sums = node.outputs[0];
  const DType dtype = graph.dtype(sums);
  std::vector<int> casts;
  if ((dtype != DType::kInt32 && dtype != DType::kFloat64) ||
      magnitude(graph, node.inputs[0]) > kSmall || magnitude(graph, node.inputs[1]) > kSmall) {
    return;
  }
  if (!casts_to_floats(graph, sums, casts)) return IntegerSums(graph, context, n).rewrite();
  if (const ValueId product = integer_product(graph, n, context); product != kNone) {
    for (const int cast : casts) graph.become(cast, "Identity", {product}, {});
    return;
  }
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  if (has_bias && graph.constant(node.inputs[2]) == nullptr) return;
  if (!context.allow("integer-product", node.name)) return;
  Floats floats(graph, context, n);
  std::vector<ValueId> inputs{floats.of(node.inputs[0]), floats.of(node.inputs[1])};
  if (has_bias) inputs.push_back(floats.of(node.inputs[2]));
  const Shape shape = graph.shape(sums);
  const ValueId product = graph.insert(n, node.op->name, inputs, node.attributes, DType::kFloat32,
                                       shape, node.name + ".floats");
  for (const int cast : casts) graph.become(cast, "Identity", {product}, {});
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "MatMul") || rewriter.is(n, "Conv")) rewrite(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kMultiplyInFloats{.name = "multiply-in-floats",
                             .summary = "products of small integers as products of floats",
                             .rules = kRules,
                             .run = run};

}  // namespace stretto::passes
