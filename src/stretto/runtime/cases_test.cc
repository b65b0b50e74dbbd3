// Every operator over the cases it draws of itself (ir/cases.h), as a model meets it: through the
// lowering, with and without the passes, then through every kernel that takes the problem, on every
// instruction set of this machine, against the reference interpreter.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "stretto/ir/case_options.h"
#include "stretto/ir/text.h"
#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/fourier/problem.h"
#include "stretto/kernels/reorder/problem.h"
#include "stretto/kernels/row_check.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/case_check.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/costs.h"
#include "stretto/runtime/measure_model.h"

namespace stretto::runtime {
namespace {

// Cases per operator: about seven seconds of processor time for all three instruction sets.
constexpr int kCases = 80;

bool only_moves(std::string_view family) {
  return family == "concat_channels" || family == "copy_region" || family == "gather" ||
         family == "reorder" || family == "transpose";
}

// Elementwise: the vector functions promise 4 units in the last place or 1e-7
// (simd/activation-inl.h), and Highway's logarithm and sine as much. Sums: rounding of fp32 sums of
// a few hundred terms in another order. Resize: the same; taps of weight 0 are read as well.
// Norms: the same; an infinite scale meets differences that rounding makes 0 or not.
// Winograd: what its accuracy class may lose. Strassen: every value of a quarter of a matrix meets
// others of its row and column.
Tolerance tolerance_of(const Step& step, int row) {
  if (step.kind != StepKind::kKernel || only_moves(step.family->name)) return {};
  if (step.family->name == "elementwise") return {.relative = 4e-6, .pointwise = true};
  if (step.family->name == "layer_norm" || step.family->name == "group_norm") {
    return {.relative = 5e-6, .spreads = true};
  }
  // The state carries its error from step to step.
  if (step.family->name == "recurrent") return {.relative = 2e-5, .spreads = true};
  if (step.family->name == "resize") return {.relative = 5e-6, .spreads = true};
  // Real numbers are transformed two at a time: an infinite one meets others.
  if (step.family->name == "fourier") {
    const std::byte* problem = step.variants[0].problem.data();
    const bool wide =
        reinterpret_cast<const kernels::FourierProblem*>(problem)->dtype == DType::kFloat64;
    return {.relative = wide ? 1e-14 : 5e-6, .spreads = true};
  }
  const std::string_view name = step.family->row_name(row);
  // Groups that share blocks of channels are multiplied by zeros of each other's weights.
  if (step.family->name == "conv2d" && name == "direct") {
    const std::byte* problem = step.variants[0].problem.data();
    if (reinterpret_cast<const kernels::Conv2dProblem*>(problem)->groups != 1) {
      return {.relative = 5e-6, .spreads = true};
    }
  }
  if (name.starts_with("winograd_f4")) return {.relative = 1e-4, .spreads = true};
  if (name.starts_with("winograd") || name.starts_with("strassen"))
    return {.relative = 2e-5, .spreads = true};
  return {.relative = 5e-6};
}

// Of the whole graph: a step that moves values is exact, those that it moves may not be.
Tolerance tolerance_of(const Lowered& lowered, const Forced& forced) {
  const Tolerance own = tolerance_of(lowered.steps[forced.step], forced.row);
  if (own.relative > 0) return own;
  for (const Step& step : lowered.steps) {
    const Tolerance other = tolerance_of(step, step.family ? step.family->reference : 0);
    if (other.relative > 0) return other;
  }
  return own;
}

// The node as it was drawn, and as the passes leave it.
std::vector<std::shared_ptr<ir::Graph>> graphs_of(const ir::Case& c) {
  auto drawn = std::make_shared<ir::Graph>(c.graph);
  auto rewritten = std::make_shared<ir::Graph>(c.graph);
  const auto report = passes::run_pipeline(*rewritten, {.verify = false});
  if (report.fired.empty()) return {drawn};
  return {drawn, rewritten};
}

// Both directions of every blocked value, exactly.
std::string reorder_fault(const kernels::Target& target, std::span<const Tensor> inputs) {
  std::set<Shape> seen;
  for (const Tensor& x : inputs) {
    if (x.rank() != 4 || x.dtype() != DType::kFloat32 || x.count() == 0) continue;
    if (!seen.insert(x.shape()).second) continue;
    for (const bool to_blocked : {true, false}) {
      const Layout from = to_blocked ? Layout::kPlain : Layout::kBlocked;
      const Layout to = to_blocked ? Layout::kBlocked : Layout::kPlain;
      const kernels::ReorderProblem p = reorder_problem(x.shape(), from, to, target);
      const Stored source = stored(x, from, target.block());
      for (int row = 0; row < kernels::kReorder.rows; ++row) {
        if (!kernels::kReorder.fits(row, &p).ok) continue;
        const Stored result = new_storage(x.shape(), x.dtype(), to, target.block(), 0x7f);
        const void* in[] = {source.data.get()};
        void* out[] = {result.data.get()};
        kernels::shared_team(target.threads)->run([&](const Worker& worker) {
          kernels::run_shares(kernels::kReorder, row, &p, {.inputs = in, .outputs = out}, worker);
        });
        const Tensor y = loaded(result, x.shape(), x.dtype(), to, target.block());
        if (std::memcmp(y.data(), x.data(), x.bytes()) != 0) {
          return fmt::format("{} of {} changes values", kernels::kReorder.row_name(row),
                             kernels::problem_key(p));
        }
      }
    }
  }
  return "";
}

std::string choice_text(const Lowered& lowered, const Forced& forced) {
  const Step& step = lowered.steps[forced.step];
  if (step.family == nullptr) return fmt::format("step {} of {}", forced.step, step.node->op->name);
  const void* problem = step.variants[forced.variant].problem.data();
  return fmt::format("{} on {}", step.family->row_name(forced.row), step.family->key(problem));
}

std::string kernels_fault(const ir::Case& c, const std::shared_ptr<ir::Graph>& graph,
                          const kernels::Target& target, Expectation& expectation) {
  const Lowered lowered = lower(graph, target);
  StepRunner runner(lowered, target, *kernels::shared_team(target.threads));
  std::string fault;
  each_choice(lowered, [&](const Forced& forced) {
    // ir/cases_test.cc says all that can be said of an interpreted step.
    if (lowered.steps[forced.step].kind == StepKind::kInterpret) return true;
    const Tolerance tolerance = tolerance_of(lowered, forced);
    fault = expectation.fault(runner.run(c.inputs, forced), tolerance);
    if (!fault.empty()) fault = choice_text(lowered, forced) + ": " + fault;
    return fault.empty();
  });
  return fault.empty() ? reorder_fault(target, c.inputs) : fault;
}

// As a session runs it: layouts chosen, memory planned, kernels in built-in order.
std::string program_fault(const std::shared_ptr<ir::Graph>& graph, const kernels::Target& target,
                          const ir::Case& c, Expectation& expectation) {
  Selector selector({});
  const Compiled compiled = compile(graph, target, selector, {});
  Tolerance loosest;
  for (const Instruction& in : compiled.program.instructions) {
    if (in.family == nullptr) continue;
    const Tolerance t =
        tolerance_of({.family = in.family, .variants = {{.problem = in.problem}}}, in.row);
    if (t.relative > loosest.relative) loosest = {t.relative, t.pointwise, loosest.spreads};
    loosest.spreads = loosest.spreads || t.spreads;
  }
  const std::string fault = expectation.fault(run_program(compiled.program, c.inputs), loosest);
  return fault.empty() ? "" : "the compiled program: " + fault;
}

// "" or what is wrong with a case on one machine.
std::string fault_on(const ir::Case& c, const kernels::Target& target) {
  try {
    Expectation expectation(c);
    for (const auto& graph : graphs_of(c)) {
      std::string fault = kernels_fault(c, graph, target, expectation);
      if (fault.empty()) fault = program_fault(graph, target, c, expectation);
      if (!fault.empty()) return fault + "\nlowered from\n" + ir::to_text(*graph);
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

class EveryKernel : public testing::TestWithParam<const ir::Operator*> {};

TEST_P(EveryKernel, GivesWhatTheReferenceGives) {
  const ir::CaseOptions options = ir::case_options(kCases);
  int number = 0;
  for (const ir::Case& c : ir::draw_cases(*GetParam(), options.seed, options.count)) {
    const int threads = number++ % 4 == 3 ? 2 : 1;
    for (Isa isa : usable_isas()) {
      const kernels::Target target{
          .isa = isa, .accuracy = kernels::Accuracy::kFast, .threads = threads};
      const auto wrong = [&](const ir::Case& one) { return fault_on(one, target); };
      if (wrong(c).empty()) continue;
      const ir::Case small =
          ir::minimised(c, [&](const ir::Case& one) { return !wrong(one).empty(); });
      FAIL() << wrong(small) << "\nseed " << options.seed << ", smallest case, for "
             << kernels::target_text(target) << ":\n"
             << ir::case_text(small);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryKernel, testing::ValuesIn(ir::operators()),
                         [](const auto& info) {
                           std::string name(info.param->name);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// Otherwise the test above says nothing about that kernel.
TEST(Cases, ReachEveryKernelOnEveryInstructionSet) {
  for (Isa isa : usable_isas()) {
    std::map<std::string, int> taken;
    for (const kernels::Family* family : kernels::families()) {
      for (int row = 0; row < family->rows; ++row) {
        taken[fmt::format("{}/{}", family->name, family->row_name(row))] = 0;
      }
    }
    taken["reorder/tiles"] = taken["reorder/reference"] = 1;  // see reorder_fault()
    taken["matmul_integer/dots"] = 1;  // only processors with VNNI take it, of that width
    for (const ir::Operator* op : ir::operators()) {
      for (const ir::Case& c : ir::draw_cases(*op, 1, kCases)) {
        for (const auto& graph : graphs_of(c)) {
          const Lowered lowered = lower(graph, {.isa = isa, .accuracy = kernels::Accuracy::kFast});
          each_choice(lowered, [&](const Forced& forced) {
            const kernels::Family* family = lowered.steps[forced.step].family;
            if (family) ++taken[fmt::format("{}/{}", family->name, family->row_name(forced.row))];
            return true;
          });
        }
      }
    }
    for (const auto& [row, times] : taken) {
      EXPECT_GT(times, 0) << row << " takes no case on " << isa_name(isa);
    }
  }
}

}  // namespace
}  // namespace stretto::runtime
