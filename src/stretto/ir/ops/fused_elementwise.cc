// stretto.Elementwise: a whole expression over broadcast inputs in one loop (see ir/fused.h).
#include <algorithm>
#include <array>

#include "stretto/ir/fused.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"
#include "stretto/tensor/elementwise.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kTypes = kRealOrInteger | kBoolType;
constexpr Port kInputs[] = {{"x", kTypes, Arity::kVariadic}};
constexpr Port kOutputs[] = {{"y", kTypes}};
constexpr AttributeSpec kAttributes[] = {{"dtype", AttributeKind::kString},
                                         {"program", AttributeKind::kString, true}};

void infer(Inference& c) {
  if (c.input_count() < 1 || c.input_count() > 8) {
    throw_invalid("expected 1 to 8 inputs, got {}", c.input_count());
  }
  for (const ElementwiseStep& step : parse_elementwise(c.attributes().text("program", ""))) {
    for (const ElementwiseArg& arg : step.args) {
      if (arg.kind == ElementwiseArg::Kind::kInput && !c.has_input(arg.index)) {
        throw_invalid("program: uses x{}, but there are {} inputs", arg.index, c.input_count());
      }
    }
  }
  const DType dtype =
      c.attributes().has("dtype") ? parse_dtype(c.attributes().text("dtype", "")) : c.dtype(0);
  infer_broadcast(c, dtype);
}

// Whether everything is float32 or bool, so that every result is rounded to float32, as it would be
// by operators of their own: comparisons tell the difference.
bool rounds(const Evaluation& c) {
  const auto fits = [](DType d) { return d == DType::kFloat32 || d == DType::kBool; };
  return fits(c.output_dtypes[0]) && std::all_of(c.inputs.begin(), c.inputs.end(),
                                                 [&](const Tensor& x) { return fits(x.dtype()); });
}

void evaluate(Evaluation& c) {
  const std::vector<ElementwiseStep> steps = parse_elementwise(c.attributes.text("program", ""));
  std::vector<const ElementRow*> rows;
  for (const ElementwiseStep& step : steps) rows.push_back(find_element(step.op));
  std::vector<Tensor> inputs;
  std::vector<Shape> shapes;
  for (const Tensor& input : c.inputs) {
    inputs.push_back(input.dtype() == DType::kFloat64 ? input : input.converted(DType::kFloat64));
    shapes.push_back(input.shape());
  }
  const StridedLoop loop = StridedLoop::broadcast(c.output_shapes[0], shapes);
  const bool rounded = rounds(c);
  Tensor result(DType::kFloat64, c.output_shapes[0]);
  double* y = data_of<double>(result);
  parallel(c.team, loop.count(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    std::vector<double> results(steps.size());
    loop.rows(begin, end,
              [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* strides) {
                for (int64_t i = 0; i < length; ++i) {
                  for (size_t s = 0; s < steps.size(); ++s) {
                    std::array<double, 3> arguments{};
                    for (size_t k = 0; k < steps[s].args.size(); ++k) {
                      const ElementwiseArg& arg = steps[s].args[k];
                      const int j = arg.index;
                      arguments[k] = arg.kind == ElementwiseArg::Kind::kLiteral ? arg.literal
                                     : arg.kind == ElementwiseArg::Kind::kResult
                                         ? results[j]
                                         : data_of<double>(inputs[j])[offsets[j] + i * strides[j]];
                    }
                    results[s] = rows[s]->apply_to(arguments.data());
                    if (rounded) results[s] = static_cast<float>(results[s]);
                  }
                  y[at + i] = results.back();
                }
              });
  });
  c.outputs[0] =
      c.output_dtypes[0] == DType::kFloat64 ? result : result.converted(c.output_dtypes[0]);
}

}  // namespace

const Operator kFusedElementwise{.name = "stretto.Elementwise",
                                 .inputs = kInputs,
                                 .outputs = kOutputs,
                                 .attributes = kAttributes,
                                 .infer = infer,
                                 .evaluate = evaluate};

}  // namespace stretto::ir::ops
