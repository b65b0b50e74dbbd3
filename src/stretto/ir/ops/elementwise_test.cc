#include <cmath>
#include <limits>

#include "stretto/ir/fused.h"
#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kInfF = std::numeric_limits<float>::infinity();

TEST(ElementwiseUnary, EdgeValues) {
  const Tensor x = floats({5}, {-kInfF, -1, 0, kInfF, NAN});
  expect_values(run("Relu", {x}), {5}, {0, 0, 0, kInf, NAN});
  expect_values(run("Sigmoid", {x}), {5}, {0, 1 / (1 + M_E), 0.5, 1, NAN}, 1e-7);
  expect_values(run("Softplus", {x}), {5}, {0, std::log(1 + 1 / M_E), M_LN2, kInf, NAN}, 1e-7);
  expect_values(run("Abs", {x}), {5}, {kInf, 1, 0, kInf, NAN});
  expect_values(run("Sign", {x}), {5}, {-1, -1, 0, 1, NAN});
  expect_values(run("Sqrt", {x}), {5}, {NAN, NAN, 0, kInf, NAN});
  expect_values(run("IsNaN", {x}), {5}, {0, 0, 0, 0, 1});
  expect_values(run("Round", {floats({6}, {0.5, 1.5, 2.5, -0.5, -1.5, 2.4f})}), {6},
                {0, 2, 2, 0, -2, 2});
  expect_values(run("HardSwish", {floats({4}, {-4, -1, 1, 5})}), {4}, {0, -1.0 / 3, 2.0 / 3, 5},
                1e-7);
  expect_values(run("Mish", {floats({2}, {1, -40})}), {2},
                {0.8650983882673103, -40 * std::exp(-40.0)}, 1e-7);
  expect_values(run("Exp", {floats({0}, {})}), {0}, {});
}

TEST(ElementwiseUnary, IntegersAndBools) {
  const Tensor x = ints({-3, 0, std::numeric_limits<int64_t>::min()});
  expect_values(run("Abs", {x}), {3}, {3, 0, static_cast<double>(x.values<int64_t>()[2])});
  expect_values(run("Neg", {ints({5, -7})}), {2}, {-5, 7});
  const bool flags[] = {true, false};
  expect_values(run("Not", {Tensor::of<bool>({2}, flags)}), {2}, {0, 1});
  EXPECT_NE(error_of("Exp", {ints({1})}).find("may be float32, float64, got int64"),
            std::string::npos);
}

TEST(ElementwiseBinary, Broadcasts) {
  const Tensor a = ramp({2, 1, 3}), b = floats({4, 1}, {0, 10, 20, 30});
  std::vector<double> expected;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 3; ++k) expected.push_back(i * 3 + k - 10 * j);
  expect_values(run("Sub", {a, b}), {2, 4, 3}, expected);
  expect_values(run("Add", {floats({}, {2}), ramp({0, 3})}), {0, 3}, {});
  expect_values(run("Mul", {ramp({2, 2, 2}), floats({}, {3})}), {2, 2, 2},
                {0, 3, 6, 9, 12, 15, 18, 21});
  EXPECT_EQ(error_of("Add", {ramp({2, 3}), ramp({2})}),
            "Add \"n\": shapes 2x3 and 2 do not broadcast");
  EXPECT_NE(error_of("Add", {ramp({2}), ints({1, 2})}).find("same type"), std::string::npos);
}

TEST(ElementwiseBinary, IntegerEdges) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  expect_values(run("Div", {ints({7, -7, 5, least}), ints({2, 2, 0, -1})}), {4},
                {3, -3, 0, static_cast<double>(least)});
  const int8_t a[] = {127, -128}, b[] = {1, -1};
  expect_values(run("Add", {Tensor::of<int8_t>({2}, a), Tensor::of<int8_t>({2}, b)}), {2},
                {-128, 127});
}

TEST(ElementwiseBinary, ComparisonsWithNaN) {
  const Tensor a = floats({3}, {1, NAN, 2}), b = floats({3}, {1, NAN, 3});
  expect_values(run("Equal", {a, b}), {3}, {1, 0, 0});
  expect_values(run("Less", {a, b}), {3}, {0, 0, 1});
  expect_values(run("LessOrEqual", {a, b}), {3}, {1, 0, 1});
  expect_values(run("Greater", {b, a}), {3}, {0, 0, 1});
  EXPECT_EQ(run("GreaterOrEqual", {a, b}).dtype(), DType::kBool);
}

TEST(ElementwiseBinary, ThreadsCoverEveryElementOnce) {
  ThreadTeam team(3);
  const Tensor a = ramp({7, 1, 5000}), b = ramp({11, 1}, 1000);
  const auto one = run_all("Add", {a, b}), many = run_all("Add", {a, b}, {}, 1, &team);
  EXPECT_EQ(one[0].as_doubles(), many[0].as_doubles());
}

TEST(Activation, DefaultsAndParameters) {
  const Tensor x = floats({3}, {-2, 0, 3});
  const double e2 = std::exp(-2.0);
  expect_values(run("LeakyRelu", {x}), {3}, {-0.02, 0, 3}, 1e-7);
  expect_values(run("Elu", {x}, {{"alpha", 0.5}}), {3}, {0.5 * (e2 - 1), 0, 3}, 1e-7);
  expect_values(run("HardSigmoid", {x}), {3}, {0.1, 0.5, 1}, 1e-7);
  expect_values(run("Swish", {x}), {3}, {-2 / (1 + std::exp(2.0)), 0, 3 / (1 + std::exp(-3.0))},
                1e-7);
  expect_values(run("Selu", {x}), {3}, {1.0507010 * 1.6732632 * (e2 - 1), 0, 3 * 1.0507010}, 1e-6);
  expect_values(run("Gelu", {x}), {3}, {-2 * 0.02275013194817921, 0, 3 * 0.9986501019683699}, 1e-6);
  // tanh(0.7978845608 * (3 + 0.044715 * 27)) = tanh(3.3569409)
  expect_values(run("Gelu", {floats({1}, {3})}, {{"approximate", std::string("tanh")}}), {1},
                {1.5 * (1 + std::tanh(3.35694087))}, 1e-6);
  expect_values(run("ThresholdedRelu", {x}), {3}, {0, 0, 3});
  expect_values(run("Shrink", {x}, {{"lambd", 1.0}, {"bias", 0.5}}), {3}, {-1.5, 0, 2.5});
  EXPECT_NE(error_of("Gelu", {x}, {{"approximate", std::string("fast")}}).find("approximate"),
            std::string::npos);
}

TEST(ElementwiseSpecial, ClipPReluWherePowMod) {
  const Tensor x = floats({4}, {-5, 0.5f, 5, NAN});
  expect_values(run("Clip", {x, floats({}, {0}), floats({}, {1})}), {4}, {0, 0.5, 1, NAN});
  expect_values(run("Clip", {x, {}, floats({}, {1})}), {4}, {-5, 0.5, 1, NAN});
  expect_values(run("Clip", {floats({1}, {3}), floats({}, {9}), floats({}, {1})}), {1}, {1});
  EXPECT_NE(error_of("Clip", {x, floats({2}, {0, 1})}).find("min"), std::string::npos);
  expect_values(run("PRelu", {floats({1, 2, 2}, {-1, 2, -3, 4}), floats({2, 1}, {10, 100})}),
                {1, 2, 2}, {-10, 2, -300, 4});
  EXPECT_NE(error_of("PRelu", {ramp({2}), ramp({2, 2})}).find("slope"), std::string::npos);
  const bool flags[] = {true, false};
  expect_values(run("Where", {Tensor::of<bool>({2, 1}, flags), ints({1, 2}), ints({}, {9})}),
                {2, 2}, {1, 2, 9, 9});
  expect_values(run("Pow", {ints({2, -3, 1}), ints({10, 3, -4})}), {3}, {1024, -27, 1});
  expect_values(run("Pow", {floats({2}, {4, 2}), floats({1}, {0.5})}), {2}, {2, std::sqrt(2.0)},
                1e-7);
  expect_values(run("Mod", {ints({7, -7, 7, 1}), ints({3, 3, -3, 0})}), {4}, {1, 2, -2, 0});
  expect_values(run("Mod", {ints({7, -7, 7}), ints({3, 3, -3})}, {{"fmod", int64_t{1}}}), {3},
                {1, -1, 1});
  expect_values(run("Mod", {floats({2}, {-5.5, 5.5}), floats({}, {2})}, {{"fmod", int64_t{1}}}),
                {2}, {-1.5, 1.5});
}

TEST(ElementwiseVariadic, JoinsAny) {
  const Tensor a = floats({2, 1}, {1, 4}), b = floats({2}, {2, 3}), c = floats({}, {NAN});
  expect_values(run("Max", {a, b}), {2, 2}, {2, 3, 4, 4});
  expect_values(run("Min", {a, b}), {2, 2}, {1, 1, 2, 3});
  expect_values(run("Min", {a, c}), {2, 1}, {NAN, NAN});
  expect_values(run("Sum", {a, b, b}), {2, 2}, {5, 7, 8, 10});
  expect_values(run("Mean", {a, b}), {2, 2}, {1.5, 2, 3, 3.5});
  expect_values(run("Sum", {a}), {2, 1}, {1, 4});
  EXPECT_NE(error_of("Max", {}).find("at least one"), std::string::npos);
}

TEST(FusedElementwise, RunsItsProgram) {
  const Tensor x = floats({2, 1}, {1, -1}), y = floats({2}, {3, 4});
  expect_values(
      run("stretto.Elementwise", {x, y},
          {{"program", std::string("t0 = Mul(x0, x1); t1 = Add(t0, 0.5); t2 = Relu(t1)")}}),
      {2, 2}, {3.5, 4.5, 0, 0});
  const Tensor flags =
      run("stretto.Elementwise", {x},
          {{"program", std::string("t0=Less(x0,0)")}, {"dtype", std::string("bool")}});
  EXPECT_EQ(flags.dtype(), DType::kBool);
  expect_values(flags, {2, 1}, {0, 1});
  EXPECT_NE(error_of("stretto.Elementwise", {x}, {{"program", std::string("t0 = Neg(x1)")}})
                .find("uses x1"),
            std::string::npos);
}

// As operators of their own would: x y is not 1 in double precision, but in single precision it is.
TEST(FusedElementwise, RoundsEveryStepOfFloatsToTheirType) {
  const float third = 1.0f / 3;
  const AttributeList program{{"program", std::string("t0 = Mul(x0, 3); t1 = Equal(t0, 1)")}};
  const auto as = [&](DType dtype) {
    OneNode one("stretto.Elementwise", {floats({}, {third})}, program, 1);
    infer(one.graph);
    const Tensor x = floats({}, {third}).converted(dtype);
    return evaluate(one.graph, one.graph.nodes[0], {&x, 1})[0].as_doubles()[0];
  };
  EXPECT_EQ(as(DType::kFloat32), 1);
  EXPECT_EQ(as(DType::kFloat64), 0);
}

TEST(FusedElementwise, KnowsWhichStepsAreTruth) {
  const auto truth = [](const char* program) {
    return std::vector<bool>(truth_of(parse_elementwise(program), {true, true, false}));
  };
  EXPECT_EQ(truth("t0 = And(x0, x1); t1 = Where(t0, x0, t0); t2 = Where(t1, x1, 0.5)"),
            (std::vector{true, true, false}));
  EXPECT_EQ(truth("t0 = Less(x2, 0.5); t1 = Mul(t0, t0); t2 = Not(t1); t3 = Where(x2, x0, 1)"),
            (std::vector{true, false, true, true}));
  EXPECT_EQ(truth("t0 = Where(x0, x2, x1); t1 = ToBool(x2); t2 = IsNaN(x2); t3 = Xor(x2, x2)"),
            (std::vector{false, true, true, true}));
}

TEST(FusedElementwise, CountsItsStepsAndTheNumbersAmongTheirOperands) {
  const auto count = [](const char* program) {
    return elementwise_operations(parse_elementwise(program));
  };
  EXPECT_EQ(count("t0 = Add(x0, x1); t1 = Neg(t0)"), 2);
  EXPECT_EQ(count("t0 = Clip(x0, 0, 1); t1 = Where(x1, 0, 2); t2 = Less(t1, 3)"), 6);
}

TEST(FusedElementwise, TextRoundTripsAndErrorsQuote) {
  const std::string text = "t0 = Sigmoid(x0); t1 = Clip(t0, -0.5, 1e-07); t2 = Where(x7, t1, x0)";
  EXPECT_EQ(elementwise_text(parse_elementwise(text)), text);
  const auto message = [](const char* program) -> std::string {
    try {
      parse_elementwise(program);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("t0 = Bump(x0)").find("'Bump'"), std::string::npos);
  EXPECT_NE(message("t0 = Add(x0)").find("takes 2 arguments, got 1"), std::string::npos);
  EXPECT_NE(message("t0 = Neg(t0)").find("before it is assigned"), std::string::npos);
  EXPECT_NE(message("t1 = Neg(x0)").find("assignment to t0"), std::string::npos);
  EXPECT_NE(message("t0 = Neg(y)").find("'y'"), std::string::npos);
  EXPECT_NE(message("t0 = Neg(x0").find("tN = Op"), std::string::npos);
  EXPECT_NE(message(" ").find("at least one"), std::string::npos);
}

// Passes fuse and the lowering compiles what elementwise_program() says of an operator.
TEST(ElementwiseProgram, ComputesWhatItsOperatorComputes) {
  const Tensor x = floats({5}, {-2, -0.5f, 0, 3, NAN}), y = floats({5}, {1, -1, 0.5f, 2, 1});
  const Tensor low = floats({}, {-1}), high = floats({}, {2});
  const auto check = [](const char* op, const std::vector<Tensor>& inputs, AttributeList attributes,
                        const char* text) {
    OneNode one(op, inputs, attributes, 1);
    const auto program = elementwise_program(one.graph.nodes[0]);
    ASSERT_TRUE(program) << op;
    EXPECT_EQ(elementwise_text(*program), text);
    const Tensor expected = run(op, inputs, attributes);
    expect_values(run("stretto.Elementwise", inputs, {{"program", std::string(text)}}),
                  expected.shape(), expected.as_doubles(), 1e-7);
  };
  check("Add", {x, y}, {}, "t0 = Add(x0, x1)");
  check("Sum", {x, y, y}, {}, "t0 = Add(x0, x1); t1 = Add(t0, x2)");
  check("Max", {x, y, low}, {}, "t0 = Max(x0, x1); t1 = Max(t0, x2)");
  check("Relu", {x}, {}, "t0 = Relu(x0)");
  check("Elu", {x}, {}, "t0 = Elu(x0, 1)");
  check("Elu", {x}, {{"alpha", 0.5}}, "t0 = Elu(x0, 0.5)");
  check("HardSigmoid", {x}, {{"beta", 0.25}}, "t0 = HardSigmoid(x0, 0.20000000298023224, 0.25)");
  check("PRelu", {x, y}, {}, "t0 = LeakyRelu(x0, x1)");
  check("Swish", {x}, {}, "t0 = Silu(x0)");
  check("Gelu", {x}, {}, "t0 = Gelu(x0)");
  check("Gelu", {x}, {{"approximate", std::string("tanh")}}, "t0 = GeluTanh(x0)");
  check("Clip", {x}, {}, "t0 = Clip(x0, -inf, inf)");
  check("Clip", {x, low, high}, {}, "t0 = Clip(x0, x1, x2)");
  const Tensor wide = floats({5}, {-kInfF, -1, 0, kInfF, NAN});
  check("IsNaN", {wide}, {}, "t0 = IsNaN(x0)");
  check("IsInf", {wide}, {}, "t0 = Abs(x0); t1 = Equal(t0, inf)");
  check("IsInf", {wide}, {{"detect_negative", int64_t{0}}}, "t0 = Equal(x0, inf)");
  check("IsInf", {wide}, {{"detect_positive", int64_t{0}}}, "t0 = Equal(x0, -inf)");
  check("IsInf", {wide}, {{"detect_negative", int64_t{0}}, {"detect_positive", int64_t{0}}},
        "t0 = Less(x0, x0)");
  const bool p[] = {true, true, false, false}, q[] = {true, false, true, false};
  check("Xor", {Tensor::of<bool>({4}, p), Tensor::of<bool>({4}, q)}, {}, "t0 = Xor(x0, x1)");
}

TEST(ElementwiseProgram, SaysNothingOfOtherOperators) {
  const auto program = [](const char* op, AttributeList attributes) {
    OneNode one(op, {floats({1}, {1})}, attributes, 1);
    return elementwise_program(one.graph.nodes[0]);
  };
  EXPECT_TRUE(program("Swish", {}));
  EXPECT_FALSE(program("Swish", {{"alpha", 2.0}})) << "silu is swish with alpha 1";
  EXPECT_FALSE(program("Softmax", {}));
  EXPECT_FALSE(program("Cast", {{"to", int64_t{1}}}));
}

}  // namespace
}  // namespace stretto::ir
