#include "stretto/passes/pipeline.h"

#include "stretto/base/error.h"
#include "stretto/passes/bisect.h"
#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kBlock = R"(
graph block
input x: float32[1, 4, 8, 8]
constant w1: float32[8, 4, 3, 3] = random(1)
constant w2: float32[4, 8, 1, 1] = random(2)
constant g: float32[8] = {1, 2, 3, 4, 0.5, 0.25, 1.5, 1}
constant b: float32[8] = random(3)
constant m: float32[8] = random(4)
constant v: float32[8] = {1, 2, 1, 0.5, 1, 2, 3, 1}
c1 = Conv(x, w1) {pads = [1, 1, 1, 1]}
n1 = BatchNormalization(c1, g, b, m, v)
r1 = Relu(n1)
c2 = Conv(r1, w2)
s = Add(c2, x)
y = Relu(s)
output y
)";

TEST(Pipeline, TurnsAResidualBlockIntoItsConvolutions) {
  ir::Graph graph = ir::parse_text(kBlock);
  const ir::Graph before = graph;
  const PipelineReport report = run_pipeline(graph);
  EXPECT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(report.seconds.size(), pipeline().size());
  expect_same_results(before, graph, 1e-6);
}

TEST(Pipeline, NodesThatNoOutputNeedsStandInNobodysWay) {
  ir::Graph graph = ir::parse_text(R"(
graph dead
input x: float32[1, 4, 8, 8]
constant w: float32[8, 4, 3, 3] = random(1)
c = Conv(x, w)
unused = Neg(c)
y = Relu(c)
output y
)");
  run_pipeline(graph);
  EXPECT_EQ(graph.nodes.size(), 1u);
}

TEST(Pipeline, DisablesPassesAndRulesByName) {
  ir::Graph graph = ir::parse_text(kBlock);
  run_pipeline(graph, {.disabled = {"fold-batch-norm", "residual"}});
  const auto has = [&](std::string_view op) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [&](const ir::Node& n) { return n.op->name == op; });
  };
  EXPECT_TRUE(has("BatchNormalization"));
  EXPECT_TRUE(has("stretto.Elementwise"));
  EXPECT_THROW(run_pipeline(graph, {.disabled = {"fold-batchnorm"}}), InvalidArgument);
}

TEST(Pipeline, StopsAfterSoManyApplications) {
  ir::Graph all = ir::parse_text(kBlock);
  const auto full = run_pipeline(all).fired;
  for (int k = 0; k <= static_cast<int>(full.size()); ++k) {
    ir::Graph some = ir::parse_text(kBlock);
    const auto fired = run_pipeline(some, {.max_applications = k}).fired;
    ASSERT_EQ(fired.size(), static_cast<size_t>(k));
    for (int i = 0; i < k; ++i) EXPECT_EQ(fired[i].rule, full[i].rule);
    expect_same_results(ir::parse_text(kBlock), some, 1e-6);
  }
}

TEST(Pipeline, EveryPassAndRuleHasItsOwnName) {
  std::map<std::string_view, const Pass*> names;
  for (const Pass* pass : pipeline()) {
    const auto [at, fresh] = names.try_emplace(pass->name, pass);
    EXPECT_EQ(at->second, pass) << pass->name;
    EXPECT_FALSE(pass->summary.empty());
    for (std::string_view rule : pass->rules) {
      if (rule == pass->name) continue;  // a pass of one rule may share its name
      const auto [other, first] = names.try_emplace(rule, pass);
      EXPECT_EQ(other->second, pass) << rule;
    }
  }
}

TEST(PassContext, RefusesRulesThatThePassDoesNotList) {
  PassContext context;
  EXPECT_THROW(context.allow("drop-identity", "n"), InternalError);
  context.enter(kRemoveIdentity);
  EXPECT_TRUE(context.allow("drop-identity", "n"));
  EXPECT_THROW(context.allow("no-such-rule", "n"), InternalError);
}

TEST(Bisect, FindsNothingInARightPipeline) {
  const ir::Graph graph = ir::parse_text(kBlock);
  EXPECT_FALSE(bisect(graph, random_inputs(graph, 1), {}, 1e-5));
}

TEST(Bisect, NamesTheRuleThatRounds) {
  // Folding the batch norm is the only rewrite here that rounds; with a tolerance below float32's
  // resolution it counts as a mistake.
  const ir::Graph graph = ir::parse_text(kBlock);
  const auto culprit = bisect(graph, random_inputs(graph, 1), {}, 1e-13);
  ASSERT_TRUE(culprit.has_value());
  EXPECT_EQ(culprit->fired.pass, "fold-batch-norm");
  EXPECT_EQ(culprit->fired.rule, "fold-batch-norm");
  EXPECT_EQ(culprit->fired.node, "n1");
  EXPECT_EQ(culprit->output, "y");
  EXPECT_GT(culprit->error, 1e-13);
  EXPECT_FALSE(bisect(graph, random_inputs(graph, 1), {.disabled = {"fold-batch-norm"}}, 1e-13));
}

// Turns every Sub into an Add: right only where nothing is subtracted.
constexpr std::string_view kWrongRules[] = {"swap-operands", "drop-sign"};
void run_wrong(ir::Graph& graph, PassContext& context) {
  for (ir::Node& node : graph.nodes) {
    if (node.op->name == "Add" && context.allow("swap-operands", node.name)) {
      std::swap(node.inputs[0], node.inputs[1]);
    }
    if (node.op->name == "Sub" && context.allow("drop-sign", node.name)) {
      node.op = ir::find_operator("Add");
    }
  }
}
constexpr Pass kWrong{
    .name = "wrong", .summary = "for the test", .rules = kWrongRules, .run = run_wrong};

TEST(Bisect, NamesTheWrongRuleAndTheNodeAmongManyRightOnes) {
  const ir::Graph graph = ir::parse_text(R"(
    graph g
    input x: float32[2, 8]
    input z: float32[2, 8]
    constant nothing: float32[8] = {0 ...}
    a = Add(x, z)
    i = Identity(a)
    b = Sub(i, nothing)
    c = Add(b, x)
    d = Sub(c, z)
    e = Add(d, a)
    y = Relu(e)
    w = Tanh(x)
    output w, y)");
  const Pass* const passes[] = {&kRemoveIdentity, &kWrong, &kFuseElementwise, &kRemoveDead};
  const std::vector<Tensor> inputs = random_inputs(graph, 1);
  const auto culprit = bisect(graph, inputs, {}, 1e-6, nullptr, passes);
  ASSERT_TRUE(culprit.has_value());
  EXPECT_EQ(culprit->fired.pass, "wrong");
  EXPECT_EQ(culprit->fired.rule, "drop-sign");
  EXPECT_EQ(culprit->fired.node, "d");
  EXPECT_EQ(culprit->output, "y");
  EXPECT_GT(culprit->error, 1e-3);
  EXPECT_FALSE(bisect(graph, inputs, {.disabled = {"drop-sign"}}, 1e-6, nullptr, passes));
}

}  // namespace
}  // namespace stretto::passes
