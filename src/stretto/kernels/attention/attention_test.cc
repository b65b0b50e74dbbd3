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

// A step of decoding: caches with places that are not used, hidden by either kind of mask, in front
// and behind, and heads that share them. What lies in hidden places may be anything finite.
TEST(Attention, FewQueriesOverPartsOfCaches) {
  for (const float hidden : {-std::numeric_limits<float>::infinity(), -3.4e38f}) {
    for (const int64_t dim : {5, 64, 80, 200}) {
      for (const int64_t sq : {1, 3}) {
        AttentionProblem p = dense_attention({.threads = 2}, 2, 4, sq, 70, dim, false);
        p.kv_heads = 2;
        for (AttentionOperand* a : {&p.k, &p.v}) {  // 90 places, of which the problem sees 70
          a->strides[0] = 2 * 90 * dim;
          a->strides[1] = 90 * dim;
        }
        p.input_elements[1] = p.input_elements[2] = 2 * 2 * 90 * dim;
        add_mask(p, {2, 1, 1, 70});
        p.masked_zero = 1;
        EXPECT_GT(
            check_rows(kAttention, p, kTolerance,
                       [&](Workbench& b) {
                         for (int64_t j = 0; j < 140; ++j) {
                           const int64_t sample = j / 70, place = j % 70;
                           const bool seen = sample == 0 ? place >= 41 : place > 2 && place < 60;
                           b.input(3)[static_cast<size_t>(j)] = seen && place != 50 ? 0.0f : hidden;
                         }
                       }),
            1);
      }
    }
  }
}

// With masked_zero a query that sees nothing gives zeros; with the lowest float it sees all alike.
TEST(Attention, QueriesThatSeeNothing) {
  for (const float hidden : {-std::numeric_limits<float>::infinity(), -3.4e38f}) {
    for (const int64_t sq : {2, 20}) {
      AttentionProblem p = dense_attention({.threads = 2}, 1, 2, sq, 40, 16, true);
      add_mask(p, {1, 1, sq, 40});
      p.masked_zero = 1;
      check_rows(kAttention, p, kTolerance, [&](Workbench& b) {
        for (int64_t j = 0; j < 40 * sq; ++j) {
          b.input(3)[static_cast<size_t>(j)] = j < 40 ? hidden : 0.0f;
        }
      });
    }
  }
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

void set_starts(Workbench& b, const std::vector<int32_t>& starts) {
  std::ranges::copy(starts, reinterpret_cast<int32_t*>(b.input(3).data()));
}

// Samples one behind the other, of every kind of length, against the reference row.
TEST(Attention, SamplesOfSeveralLengths) {
  const std::vector<std::vector<int64_t>> batches{
      {1}, {130}, {0, 0}, {7, 0, 130, 48, 1}, {49, 3, 96, 0}, {5, 600, 17}};
  for (int threads : {1, 2, 3, 7}) {
    for (const auto& lengths : batches) {
      for (int64_t filler : {0, 5}) {
        for (int64_t dim : {8, 40}) {
          std::vector<int32_t> starts{0};
          int64_t longest = 1;
          for (int64_t length : lengths) {
            starts.push_back(starts.back() + static_cast<int32_t>(length));
            longest = std::max(longest, length);
          }
          AttentionProblem p =
              dense_attention({.threads = threads}, static_cast<int64_t>(lengths.size()), 3,
                              longest + filler, longest + filler, dim, true);
          make_ragged(p, starts.back() + filler);
          if (p.rows == 0) continue;
          check_rows(kAttention, p, kTolerance, [&](Workbench& b) { set_starts(b, starts); });
        }
      }
    }
  }
}

// Each sample alone, as a problem without starts, gives the same.
TEST(Attention, ASampleAmongOthersIsAsIfAlone) {
  const std::vector<int32_t> starts{0, 50, 50, 53, 83};
  constexpr int64_t kHeads = 2, kDim = 16, kRows = 85;
  AttentionProblem p = dense_attention({}, 4, kHeads, 64, 64, kDim, true);
  make_ragged(p, kRows);
  Workbench together(kAttention, &p);
  set_starts(together, starts);
  for (int row = 0; row < kAttention.rows; ++row) {
    if (!kAttention.fits(row, &p).ok) continue;
    together.run(row);
    for (size_t sample = 0; sample + 1 < starts.size(); ++sample) {
      const int64_t begin = starts[sample], count = starts[sample + 1] - begin;
      if (count == 0) continue;
      const AttentionProblem one = dense_attention({}, 1, kHeads, count, count, kDim, true);
      Workbench alone(kAttention, &one);
      for (int i = 0; i < 3; ++i) {
        std::ranges::copy(together.input(i).subspan(static_cast<size_t>(begin * kHeads * kDim),
                                                    static_cast<size_t>(count * kHeads * kDim)),
                          alone.input(i).begin());
      }
      alone.run(kAttention.reference);
      for (int64_t i = 0; i < count * kHeads * kDim; ++i) {
        EXPECT_NEAR(together.output(0)[static_cast<size_t>(begin * kHeads * kDim + i)],
                    alone.output(0)[static_cast<size_t>(i)], kTolerance);
      }
    }
    for (int64_t i = starts.back() * kHeads * kDim; i < kRows * kHeads * kDim; ++i) {
      EXPECT_EQ(together.output(0)[static_cast<size_t>(i)], 0) << kAttention.row_name(row);
    }
  }
}

// Starts that do not ascend or lie beyond the rows give numbers of no meaning, but nothing outside
// of the operands is read or written: the address sanitizer would see it. On one thread: two
// samples that claim the same rows would be a data race to the thread sanitizer.
TEST(Attention, WrongStartsStayWithinTheRows) {
  AttentionProblem p = dense_attention({.threads = 1}, 3, 2, 20, 20, 8, true);
  make_ragged(p, 30);
  for (const std::vector<int32_t>& starts : std::vector<std::vector<int32_t>>{
           {0, 30, 10, 25}, {-5, 100, 2000000000, 7}, {29, 31, -2000000000, 40}}) {
    Workbench b(kAttention, &p, 1);
    set_starts(b, starts);
    for (int row = 0; row < kAttention.rows; ++row) {
      if (kAttention.fits(row, &p).ok) b.run(row);
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
