#include "stretto/runtime/lengths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "stretto/base/error.h"
#include "stretto/runtime/arena_shelf.h"

namespace stretto::runtime {
namespace {

TEST(Lengths, RowsAreFewAndCloseToTokens) {
  double waste = 0;
  std::set<int64_t> programs;
  for (int64_t tokens = 256; tokens < 4096; ++tokens) {
    const int64_t rows = rounded_rows(tokens, 1 << 20);
    ASSERT_GE(rows, tokens);
    waste += static_cast<double>(rows - tokens) / static_cast<double>(tokens);
    programs.insert(rows);
  }
  EXPECT_LT(waste / (4096 - 256), 0.02);
  EXPECT_LE(programs.size(), 4u * 32 + 1);
  EXPECT_EQ(rounded_rows(0, 100), 8);
  EXPECT_EQ(rounded_rows(1, 100), 8);
  EXPECT_EQ(rounded_rows(1153, 2048), 1184);
  EXPECT_EQ(rounded_rows(99, 100), 100);  // no more than there are places
  EXPECT_EQ(rounded_rows(1, 3), 3);
}

template <typename T>
int64_t tokens_of(const std::vector<T>& values) {
  const Tensor mask = Tensor::of<T>({2, 2}, values);
  return count_tokens("mask", mask.dtype(), mask.shape(), mask.data());
}

TEST(Lengths, CountsTokensOfEveryType) {
  EXPECT_EQ(tokens_of<int64_t>({1, 0, 1, 1}), 3);
  EXPECT_EQ(tokens_of<int8_t>({0, 0, 0, 0}), 0);
  EXPECT_EQ(tokens_of<uint16_t>({1, 1, 1, 1}), 4);
  EXPECT_EQ(tokens_of<float>({1, -0.0f, 0, 1}), 2);
  EXPECT_EQ(tokens_of<double>({1, 0, 0, 0}), 1);
  const Tensor half =
      Tensor::of<float>({2, 2}, std::vector<float>{1, 0, 1, 0}).converted(DType::kFloat16);
  EXPECT_EQ(count_tokens("mask", half.dtype(), half.shape(), half.data()), 2);
}

template <typename T>
std::string refusal(const std::vector<T>& values) {
  try {
    tokens_of<T>(values);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(Lengths, NamesWhatIsNeitherTokenNorPadding) {
  EXPECT_EQ(refusal<int64_t>({1, 0, 7, 1}),
            "input mask: expected 1 for tokens and 0 for padding, because the model was optimised "
            "with lengths, got 7 at [1, 0]");
  EXPECT_NE(refusal<int8_t>({1, -1, 0, 1}).find("got -1 at [0, 1]"), std::string::npos);
  EXPECT_NE(refusal<float>({1, 0, 0, 0.5f}).find("got 0.5 at [1, 1]"), std::string::npos);
  EXPECT_NE(refusal<float>({1, 0, NAN, 0}).find("got nan at [1, 0]"), std::string::npos);
}

TEST(Lengths, ZerosWhereOutputsHavePadding) {
  const Tensor mask = Tensor::of<int64_t>({2, 2}, std::vector<int64_t>{1, 0, 1, 1});
  const auto cleared = [&](Shape shape, const std::vector<float>& values) {
    const Tensor out = without_padding(Tensor::of<float>(shape, values), mask);
    return std::vector<float>(out.values<float>().begin(), out.values<float>().end());
  };
  using List = std::vector<float>;
  EXPECT_EQ(cleared({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), (List{1, 2, 0, 0, 5, 6, 7, 8}));
  EXPECT_EQ(cleared({4, 1}, {1, 2, 3, 4}), (List{1, 0, 3, 4}));
  EXPECT_EQ(cleared({2, 3}, {1, 2, 3, 4, 5, 6}), (List{1, 2, 3, 4, 5, 6}));  // no tokens
}

TEST(ArenaShelf, TakesWhatWasPutBackAndGrows) {
  ArenaShelf shelf(100);
  ArenaShelf::Arena a = shelf.take(10), b = shelf.take(10);
  EXPECT_EQ(a.bytes, 100);
  EXPECT_NE(a.memory, b.memory);
  const auto* first = a.memory.get();
  shelf.put(std::move(a));
  a = shelf.take(90);
  EXPECT_EQ(a.memory.get(), first);
  shelf.put(std::move(a));
  a = shelf.take(1000);
  EXPECT_EQ(a.bytes, 1000);
  shelf.put(std::move(a));
  shelf.put(std::move(b));
  EXPECT_EQ(shelf.take(200).bytes, 1000);  // b was too small, and what replaces it is not
}

}  // namespace
}  // namespace stretto::runtime
