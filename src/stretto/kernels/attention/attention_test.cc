#include "stretto/kernels/attention/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// Two sums of up to 1100 products and the exponential's 4 ulp.
constexpr double kTolerance = 5e-6;

TEST(Attention, SizesLayoutsMasksThreads) {
  for (int threads : {1, 2, 3}) {
    for (int64_t sq : {1, 7, 50}) {
      for (int64_t sk : {1, 16, 37, 130}) {
        for (int64_t dim : {1, 8, 40, 64}) {
          const int variant = static_cast<int>(sq + sk + dim + threads);
          AttentionProblem p =
              dense_attention({.threads = threads}, 2, 3, sq, sk, dim, variant % 2);
          if (variant % 3 == 1) add_mask(p, {2, 1, 1, sk});
          if (variant % 3 == 2) add_mask(p, {1, 3, sq, 1});
          EXPECT_GT(check_rows(kAttention, p, kTolerance), 0);
        }
      }
    }
  }
}

TEST(Attention, ManyKeysInChunks) {
  AttentionProblem p = dense_attention({.threads = 2}, 1, 2, 100, 1100, 24, true);
  add_mask(p, {1, 1, 100, 1100});
  // Large scores make the running maximum move between chunks.
  check_rows(kAttention, p, kTolerance, [](Workbench& b) {
    for (float& x : b.input(0)) x *= 20;
  });
}

// The mask of a decoder: query i sees key j when j <= i + offset, and some see nothing at all,
// which gives NaN as in the reference.
TEST(Attention, CausalMasks) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t offset : {0, 500, -10}) {
    AttentionProblem p = dense_attention({.threads = 2}, 1, 2, 60, 560, 16, true);
    add_mask(p, {1, 1, 60, 560});
    check_rows(kAttention, p, kTolerance, [&](Workbench& b) {
      for (int64_t i = 0; i < 60; ++i) {
        for (int64_t j = 0; j < 560; ++j) {
          b.input(3)[static_cast<size_t>(i * 560 + j)] = j <= i + offset ? 0 : -kInfinity;
        }
      }
    });
  }
}

TEST(Attention, MinusInfinityMasks) {
  AttentionProblem p = dense_attention({}, 1, 1, 20, 600, 16, false);
  add_mask(p, {1, 1, 20, 600});
  check_rows(kAttention, p, kTolerance, [](Workbench& b) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (size_t i = 0; i < b.input(3).size(); ++i) {
      const size_t row = i / 600, column = i % 600;
      if (column % 3 == 0 || (row < 5 && column < 550) || row == 7) b.input(3)[i] = -kInfinity;
    }
  });
}

TEST(Attention, PackedAndGroupedHeads) {
  // One input [batch, seq, 3, heads, dim].
  AttentionProblem p = dense_attention({.threads = 2}, 2, 4, 33, 33, 20, true);
  p.inputs = 1;
  p.input_elements[0] = 2 * 33 * 3 * 4 * 20;
  AttentionOperand* operands[] = {&p.q, &p.k, &p.v};
  for (int i = 0; i < 3; ++i) {
    *operands[i] = {.input = 0, .offset = i * 80, .strides = {33 * 240, 20, 240, 1}};
  }
  EXPECT_GT(check_rows(kAttention, p, kTolerance), 0);
  p = dense_attention({.threads = 3}, 1, 6, 17, 29, 12, false);
  p.kv_heads = 2;
  EXPECT_GT(check_rows(kAttention, p, kTolerance), 0);
  // Keys stored transposed, [batch, heads, dim, seq], and so is the output.
  p = dense_attention({}, 1, 2, 19, 35, 16, false);
  p.k.strides[2] = 1;
  p.k.strides[3] = 35;
  p.out.strides[2] = 1;
  p.out.strides[3] = 19;
  EXPECT_GT(check_rows(kAttention, p, kTolerance), 0);
}

}  // namespace
}  // namespace stretto::kernels
