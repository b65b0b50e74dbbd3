#include "stretto/runtime/memory_check.h"

#include <gtest/gtest.h>

#include "stretto/runtime/testing.h"

namespace stretto::runtime {
namespace {

std::string refusal(const auto& what, int64_t limit) {
  try {
    check_memory(what, limit);
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "";
}

TEST(MemoryCheck, NamesWhatIsTooLarge) {
  const ir::Graph graph = ir::parse_text(R"(
    graph g
    input x: float32[1024, 1024]
    constant reps: int64[2] = {4, 1}
    y = Tile(x, reps)
    output y
  )");
  EXPECT_EQ(refusal(graph, 16 << 20), "");
  EXPECT_EQ(refusal(graph, 15 << 20),
            "Tile \"y\": output y would be float32 4096x1024: 0.0 GiB, and this machine has 0.0 "
            "GiB");
  EXPECT_TRUE(refusal(graph, 3 << 20).starts_with("input x would be float32 1024x1024"));
}

TEST(MemoryCheck, SumsWhatASessionHolds) {
  const Model model = model_of(kSmallNet);
  const Program& program = *model.state().program;
  int64_t faces = 0;
  for (const auto* list : {&program.inputs, &program.outputs}) {
    for (const TensorSpec& spec : *list) faces += element_count(spec.shape) * 4;
  }
  const int64_t needed = program.arena_bytes + program.weight_bytes() + faces;
  EXPECT_EQ(refusal(program, needed), "");
  EXPECT_TRUE(refusal(program, needed - 1).starts_with("a session needs")) << "1 byte less";
}

}  // namespace
}  // namespace stretto::runtime
