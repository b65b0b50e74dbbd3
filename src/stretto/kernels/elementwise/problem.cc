#include "stretto/kernels/elementwise/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/kernels/elementwise/doubles.h"

namespace stretto::kernels {
namespace {

// Bit per dimension of `output` in which `input`, aligned to the right, is broadcast.
uint32_t broadcast_bits(std::span<const int64_t> output, const Shape& input) {
  const size_t rank = output.size();
  if (input.size() > rank) {
    throw_invalid("elementwise: input {} has more dimensions than output {}", shape_text(input),
                  shape_text(output));
  }
  uint32_t bits = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    const size_t missing = rank - input.size();
    const int64_t size = axis < missing ? 1 : input[axis - missing];
    if (size != output[axis]) {
      if (size != 1) {
        throw_invalid("elementwise: input {} does not broadcast to output {}", shape_text(input),
                      shape_text(output));
      }
      bits |= 1u << axis;
    }
  }
  return bits;
}

}  // namespace

int64_t ElementwiseProblem::elements() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= dims[i];
  return count;
}

ElementwiseProblem elementwise_problem(const Target& target, std::span<const int64_t> output,
                                       std::span<const Shape> inputs,
                                       std::span<const DType> input_dtypes) {
  ElementwiseProblem p{.target = target};
  if (inputs.size() > p.kMaxInputs) {
    throw_unsupported("elementwise: {} inputs, at most {}", inputs.size(), p.kMaxInputs);
  }
  p.inputs = static_cast<int32_t>(inputs.size());
  std::vector<uint32_t> bits;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bits.push_back(broadcast_bits(output, inputs[i]));
    p.input_dtype[i] = input_dtypes[i];
  }
  // Neighbouring dimensions merge when every input treats them alike; unit dimensions vanish.
  Shape dims;
  std::vector<size_t> first;  // an original axis of each merged dimension
  for (size_t axis = 0; axis < output.size(); ++axis) {
    if (output[axis] == 1) continue;
    bool alike = !dims.empty();
    for (uint32_t b : bits) alike = alike && (b >> first.back() & 1) == (b >> axis & 1);
    if (alike) {
      dims.back() *= output[axis];
    } else {
      dims.push_back(output[axis]);
      first.push_back(axis);
    }
  }
  if (dims.size() > p.kMaxRank) {
    throw_unsupported("elementwise: {} dimensions after merging, at most {}", dims.size(),
                      p.kMaxRank);
  }
  p.rank = std::max<int32_t>(1, static_cast<int32_t>(dims.size()));
  for (size_t k = 0; k < dims.size(); ++k) {
    p.dims[k] = dims[k];
    for (size_t i = 0; i < bits.size(); ++i) {
      p.input_broadcast[i] |= static_cast<uint8_t>((bits[i] >> first[k] & 1) << k);
    }
  }
  return p;
}

ElementwiseProblem blocked_elementwise_problem(const Target& target,
                                               std::span<const int64_t> output,
                                               std::span<const Shape> inputs) {
  ElementwiseProblem p{.target = target};
  if (output.size() != 4) {
    throw_invalid("elementwise: blocked tensors have 4 dimensions, the output has {}",
                  output.size());
  }
  if (inputs.size() > p.kMaxInputs) {
    throw_unsupported("elementwise: {} inputs, at most {}", inputs.size(), p.kMaxInputs);
  }
  p.layout = Layout::kBlocked;
  p.rank = 4;
  std::copy(output.begin(), output.end(), p.dims);
  p.inputs = static_cast<int32_t>(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    p.input_dtype[i] = DType::kFloat32;
    p.input_broadcast[i] = static_cast<uint8_t>(broadcast_bits(output, inputs[i]));
  }
  return p;
}

bool works_in_doubles(const ElementwiseProblem& p) {
  const auto fits = [](DType d) { return d == DType::kFloat64 || d == DType::kBool; };
  const auto has = [](const Instruction& s) { return elementwise::has_doubles(s.op); };
  return fits(p.output) && std::all_of(p.input_dtype, p.input_dtype + p.inputs, fits) &&
         std::all_of(p.program, p.program + p.instructions, has);
}

uint8_t append(ElementwiseProblem& p, const Instruction& instruction) {
  if (p.instructions == p.kMaxInstructions) {
    throw_unsupported("elementwise: more than {} instructions", p.kMaxInstructions);
  }
  p.program[p.instructions] = instruction;
  return static_cast<uint8_t>(p.inputs + p.instructions++);
}

namespace {

// Exact arithmetic was int64 only at first; tuning caches have those keys.
std::string compute_text(DType compute) {
  if (compute == DType::kFloat32) return "";
  if (compute == DType::kInt64) return " exact";
  return fmt::format(" in {}", dtype_name(compute));
}

}  // namespace

std::string problem_key(const ElementwiseProblem& p) {
  std::string text = fmt::format(
      "elementwise {} {}", fmt::join(std::span(p.dims).first(static_cast<size_t>(p.rank)), "x"),
      layout_name(p.layout));
  for (int i = 0; i < p.inputs; ++i) {
    text += fmt::format(" {}/{:x}", dtype_name(p.input_dtype[i]), p.input_broadcast[i]);
  }
  for (int i = 0; i < p.instructions; ++i) {
    const Instruction& step = p.program[i];
    const int operands[] = {step.a, step.b, step.c};
    const ElementRow& row = element_row(step.op);
    text +=
        fmt::format(" {}({}", row.name,
                    fmt::join(std::span(operands).first(static_cast<size_t>(row.operands)), ","));
    if (step.alpha != 0 || step.beta != 0) text += fmt::format(";{},{}", step.alpha, step.beta);
    text += ')';
  }
  return text + fmt::format(" >{}{} {}", dtype_name(p.output), compute_text(p.compute),
                            target_text(p.target));
}

Signature problem_signature(const ElementwiseProblem& p) {
  static constexpr std::string_view kNames[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  Signature s;
  for (int i = 0; i < p.inputs; ++i) {
    Shape shape(p.dims, p.dims + p.rank);
    for (int k = 0; k < p.rank; ++k) {
      if (p.input_broadcast[i] >> k & 1) shape[k] = 1;
    }
    const bool blocked = p.layout == Layout::kBlocked && !(p.input_broadcast[i] >> 1 & 1);
    s.inputs.push_back({.name = kNames[i],
                        .dtype = p.input_dtype[i],
                        .shape = shape,
                        .layout = blocked ? Layout::kBlocked : Layout::kPlain});
  }
  s.outputs.push_back({.name = "y",
                       .dtype = p.output,
                       .shape = Shape(p.dims, p.dims + p.rank),
                       .layout = p.layout});
  return s;
}

double problem_flops(const ElementwiseProblem& p) {
  return static_cast<double>(p.elements()) * p.instructions;
}

}  // namespace stretto::kernels
