// stretto.Elementwise: a whole expression over broadcast inputs in one loop (see ir/fused.h).
#include <array>

#include "stretto/ir/elementwise_table.h"
#include "stretto/ir/fused.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/formulas.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir {
namespace {

using namespace ops;  // NOLINT: the formulas

// NaN wins over every number.
double maximum(double a, double b) { return a < b || std::isnan(b) ? b : a; }
double minimum(double a, double b) { return b < a || std::isnan(b) ? b : a; }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

constexpr ElementwiseFunction kFunctions[] = {
    {"Abs", 1, [](const double* x) { return std::fabs(x[0]); }},
    {"Add", 2, [](const double* x) { return x[0] + x[1]; }},
    {"And", 2, [](const double* x) -> double { return x[0] != 0 && x[1] != 0; }},
    {"Ceil", 1, [](const double* x) { return std::ceil(x[0]); }},
    {"Clip", 3, [](const double* x) { return clip(x[0], x[1], x[2]); }},
    {"Cos", 1, [](const double* x) { return std::cos(x[0]); }},
    {"Div", 2, [](const double* x) { return x[0] / x[1]; }},
    {"Elu", 2, [](const double* x) { return elu(x[0], x[1]); }},
    {"Equal", 2, [](const double* x) -> double { return x[0] == x[1]; }},
    {"Erf", 1, [](const double* x) { return std::erf(x[0]); }},
    {"Exp", 1, [](const double* x) { return std::exp(x[0]); }},
    {"Floor", 1, [](const double* x) { return std::floor(x[0]); }},
    {"Gelu", 1, [](const double* x) { return gelu(x[0]); }},
    {"GeluTanh", 1, [](const double* x) { return gelu_tanh(x[0]); }},
    {"Greater", 2, [](const double* x) -> double { return x[0] > x[1]; }},
    {"GreaterOrEqual", 2, [](const double* x) -> double { return x[0] >= x[1]; }},
    {"HardSigmoid", 3, [](const double* x) { return hard_sigmoid(x[0], x[1], x[2]); }},
    {"HardSwish", 1, [](const double* x) { return hard_swish(x[0]); }},
    {"LeakyRelu", 2, [](const double* x) { return leaky_relu(x[0], x[1]); }},
    {"Less", 2, [](const double* x) -> double { return x[0] < x[1]; }},
    {"LessOrEqual", 2, [](const double* x) -> double { return x[0] <= x[1]; }},
    {"Log", 1, [](const double* x) { return std::log(x[0]); }},
    {"Max", 2, [](const double* x) { return maximum(x[0], x[1]); }},
    {"Min", 2, [](const double* x) { return minimum(x[0], x[1]); }},
    {"Mish", 1, [](const double* x) { return mish(x[0]); }},
    {"Mul", 2, [](const double* x) { return x[0] * x[1]; }},
    {"Neg", 1, [](const double* x) { return -x[0]; }},
    {"Not", 1, [](const double* x) -> double { return x[0] == 0; }},
    {"Or", 2, [](const double* x) -> double { return x[0] != 0 || x[1] != 0; }},
    {"Pow", 2, [](const double* x) { return std::pow(x[0], x[1]); }},
    {"Reciprocal", 1, [](const double* x) { return 1 / x[0]; }},
    {"Relu", 1, [](const double* x) { return relu(x[0]); }},
    {"Round", 1, [](const double* x) { return round_even(x[0]); }},
    {"Sigmoid", 1, [](const double* x) { return sigmoid(x[0]); }},
    {"Sign", 1, [](const double* x) { return sign(x[0]); }},
    {"Silu", 1, [](const double* x) { return silu(x[0]); }},
    {"Sin", 1, [](const double* x) { return std::sin(x[0]); }},
    {"Softplus", 1, [](const double* x) { return softplus(x[0]); }},
    {"Sqrt", 1, [](const double* x) { return std::sqrt(x[0]); }},
    {"Sub", 2, [](const double* x) { return x[0] - x[1]; }},
    {"Tanh", 1, [](const double* x) { return std::tanh(x[0]); }},
    {"Where", 3, [](const double* x) { return x[0] != 0 ? x[1] : x[2]; }},
};

}  // namespace

std::span<const ElementwiseFunction> elementwise_functions() { return kFunctions; }

const ElementwiseFunction* find_elementwise_function(std::string_view name) {
  for (const ElementwiseFunction& function : kFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

namespace ops {
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

void evaluate(Evaluation& c) {
  const std::vector<ElementwiseStep> steps = parse_elementwise(c.attributes.text("program", ""));
  std::vector<const ElementwiseFunction*> functions;
  for (const ElementwiseStep& step : steps) functions.push_back(find_elementwise_function(step.op));
  std::vector<Tensor> inputs;
  std::vector<Shape> shapes;
  for (const Tensor& input : c.inputs) {
    inputs.push_back(input.dtype() == DType::kFloat64 ? input : input.converted(DType::kFloat64));
    shapes.push_back(input.shape());
  }
  const StridedLoop loop = StridedLoop::broadcast(c.output_shapes[0], shapes);
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
                    results[s] = functions[s]->apply(arguments.data());
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

}  // namespace ops
}  // namespace stretto::ir
