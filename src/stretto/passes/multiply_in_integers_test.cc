#include "stretto/base/cpu.h"
#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

std::string product(std::string_view weight_type, std::string_view weight_zero) {
  return fmt::format(R"(graph g
    input x: float32[3, 40]
    input s: float32[]
    constant w: float32[40, 5] = random(1)
    constant hundred: float32[] = {{100}}
    constant z: uint8[] = {{12}}
    constant wz: int32[] = {{{}}}
    constant b: float32[5] = {{1, 2, 3, 4, 5}}
    q = QuantizeLinear(x, s, z)
    a = Cast(q) {{to = "int32"}}
    az = Cast(z) {{to = "int32"}}
    centred = Sub(a, az)
    large = Mul(w, hundred)
    b8 = Cast(large) {{to = "{}"}}
    wide = Cast(b8) {{to = "int32"}}
    weight = Sub(wide, wz)
    sums = MatMul(centred, weight)
    floats = Cast(sums) {{to = "float32"}}
    scaled = Mul(s, floats)
    y = Add(scaled, b)
    output y)",
                     weight_zero, weight_type);
}

// Portable code multiplies integers more slowly than floats, so the pass leaves them there.
const int kTimes = usable_isa() == Isa::kPortable ? 0 : 1;

TEST(MultiplyInIntegers, TakesScaleAndBias) {
  const auto r = rewrite(product("int8", "3"), {&kFoldConstants, &kMultiplyInIntegers});
  ASSERT_EQ(r.times("integer-linear"), kTimes);
  EXPECT_EQ(r.nodes("stretto.IntegerLinear"), kTimes);
  if (kTimes == 0) return;
  EXPECT_EQ(r.nodes("QuantizeLinear"), 1);
  for (const char* gone : {"Cast", "Mul", "Add", "Sub", "MatMul"}) EXPECT_EQ(r.nodes(gone), 0);
}

TEST(MultiplyInIntegers, NotWhatInt8DoesNotHold) {
  const auto r = rewrite(product("int8", "90"), {&kFoldConstants, &kMultiplyInIntegers});
  EXPECT_EQ(r.times("integer-linear"), 0);
}

TEST(MultiplyInIntegers, BytesAsTheyAreAndNoScale) {
  const auto r = rewrite(R"(graph g
    input x: bool[4, 4]
    constant w: int8[4, 2] = {1, -128, 3, 4, 127, 6, 7, 8}
    x8 = Cast(x) {to = "int8"}
    a = Cast(x8) {to = "int32"}
    b = Cast(w) {to = "int32"}
    sums = MatMul(a, b)
    y = Cast(sums) {to = "float32"}
    output y)",
                         {&kMultiplyInIntegers}, 0);
  EXPECT_EQ(r.times("integer-linear"), kTimes);
  EXPECT_EQ(r.nodes("stretto.IntegerLinear"), kTimes);
}

TEST(MultiplyInIntegers, NotWhereIntegersAreKept) {
  const auto r = rewrite(R"(graph g
    input x: bool[4, 4]
    constant w: int32[4, 4] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}
    x8 = Cast(x) {to = "int8"}
    a = Cast(x8) {to = "int32"}
    kept = MatMul(a, w)
    k = Cast(kept) {to = "float32"}
    output kept, k)",
                         {&kMultiplyInIntegers}, 0);
  EXPECT_EQ(r.times("integer-linear"), 0);
}

}  // namespace
}  // namespace stretto::passes
