#include "stretto/passes/byte_operand.h"

#include "stretto/tensor/narrow.h"

namespace stretto::passes {
namespace {

ValueId cast_from_bytes(const Rewriter& graph, ValueId id) {
  const int cast = graph.maker(id, "Cast");
  if (cast < 0) return kNone;
  const ValueId from = graph.node(cast).inputs[0];
  return is_byte(graph.dtype(from)) ? from : kNone;
}

}  // namespace

std::optional<ByteOperand> bytes_of(Rewriter& graph, ValueId id) {
  if (const ValueId x = cast_from_bytes(graph, id); x != kNone) return ByteOperand{x, kNone};
  const int difference = graph.maker(id, "Sub");
  if (difference < 0) return std::nullopt;
  const std::vector<ValueId> of = graph.node(difference).inputs;
  const ValueId x = cast_from_bytes(graph, of[0]);
  if (x == kNone || graph.shape(of[0]) != graph.shape(id)) return std::nullopt;
  const DType dtype = graph.dtype(x);
  if (const Tensor* zero = graph.constant(of[1])) {
    const auto [low, high] = integer_range(dtype);
    if (zero->count() != 1) return std::nullopt;
    const double value = zero->as_doubles()[0];
    if (value == 0) return ByteOperand{x, kNone};
    if (value < low || value > high) return std::nullopt;
    const Tensor scalar = Tensor::of<double>({}, {&value, 1}).converted(dtype);
    return ByteOperand{x, graph.add_constant(graph.name(of[1]) + ".bytes", scalar)};
  }
  const ValueId zero = cast_from_bytes(graph, of[1]);
  if (zero == kNone || graph.dtype(zero) != dtype || !graph.shape(zero).empty()) {
    return std::nullopt;
  }
  return ByteOperand{x, zero};
}

}  // namespace stretto::passes
