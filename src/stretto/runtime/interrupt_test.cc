// An interrupt leaves teams and executors as they were: no thread waits for another that has left.
#include <gtest/gtest.h>

#include <stdexcept>

#include "stretto/base/clock.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/interpreter.h"
#include "stretto/runtime/load_and_run.h"
#include "stretto/runtime/testing.h"
#include "stretto/tensor/compare.h"

namespace stretto::runtime {
namespace {

struct Enough : std::runtime_error {
  Enough() : std::runtime_error("enough") {}
};

// Repeats `work` until it is interrupted, which has to be soon.
template <typename F>
void until_interrupted(F&& work) {
  const InterruptScope scope([] { throw Enough(); });
  const double start = now_s();
  try {
    while (now_s() - start < 10) work();
    FAIL() << "not interrupted";
  } catch (const Enough&) {
  }
}

TEST(Interrupt, EndsARunAndLeavesTheSessionWhole) {
  for (const int threads : {1, 3}) {
    const Model model = model_of(kSmallNet, threads);
    Session session(model);
    const Tensor x = varied_input(model.inputs()[0]);
    const Tensor before = session.run({x})[0];
    for (int i = 0; i < 5; ++i) until_interrupted([&] { session.run({x}); });
    EXPECT_EQ(compare(session.run({x})[0], before).max_abs, 0);
  }
}

TEST(Interrupt, EndsTheReferenceAndLeavesTheTeamWhole) {
  const Model model = model_of(kSmallNet);
  const ir::Graph& graph = *model.state().graph;
  const std::vector<Tensor> inputs{varied_input(model.inputs()[0])};
  ThreadTeam team(3);
  const ir::InterpretOptions options{.float64 = true, .team = &team};
  const Tensor before = ir::interpret(graph, inputs, options)[0];
  for (int i = 0; i < 5; ++i) until_interrupted([&] { ir::interpret(graph, inputs, options); });
  EXPECT_EQ(compare(ir::interpret(graph, inputs, options)[0], before).max_abs, 0);
}

}  // namespace
}  // namespace stretto::runtime
