#include "stretto/runtime/measure_model.h"

#include <gtest/gtest.h>

#include "stretto/base/clock.h"
#include "stretto/runtime/testing.h"

namespace stretto::runtime {
namespace {

TEST(Contest, NeedsTwoSignsAndAMargin) {
  const auto wins = [](double first_ms, double second_ms, double ratio) {
    return first_wins({.first_ms = first_ms, .second_ms = second_ms, .ratio = ratio, .rounds = 9});
  };
  EXPECT_TRUE(wins(10, 11, 0.9));
  EXPECT_FALSE(wins(10, 10, 1.0));
  EXPECT_FALSE(wins(10, 10.05, 0.995));  // too close to call
  EXPECT_TRUE(wins(10, 10.5, 0.999));
  EXPECT_FALSE(wins(10, 10, 0.9));  // undisturbed, both take as long
  EXPECT_FALSE(wins(10, 11, 1.0));  // some quick runs do not make it faster
  EXPECT_FALSE(wins(10, 9, 1.1));
}

// A model of microseconds does not keep its user waiting for as long as a large one may take.
TEST(TimeProgram, EndsEarlyWithASmallModel) {
  const Model model = model_of("graph g\ninput x: float32[4]\ny = Relu(x)\noutput y\n");
  const Program& program = *model.state().program;
  const double start = now_s();
  const ProgramTiming timing = time_program(program, {Tensor(DType::kFloat32, {4})}, 600);
  EXPECT_LT(now_s() - start, 60);
  EXPECT_GE(timing.latency.runs, 200);
  EXPECT_EQ(timing.instruction_ms.size(), program.instructions.size());
}

}  // namespace
}  // namespace stretto::runtime
