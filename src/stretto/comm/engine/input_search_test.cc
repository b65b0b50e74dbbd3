#include "stretto/comm/engine/input_search.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace stretto::comm {
namespace {

constexpr int64_t kSmallCount = kSmallBytes / 4;
constexpr float kBad = std::numeric_limits<float>::quiet_NaN();

TEST(InputSearch, IsForSumsOfFloatsThatTheCallerHasNotSearched) {
  const Options options;
  EXPECT_TRUE(is_searched({}, options));
  EXPECT_FALSE(is_searched({.kind = Kind::kAllGather}, options));
  EXPECT_FALSE(is_searched({.dtype = DType::kInt32}, options));
  EXPECT_FALSE(is_searched({.scanned = true}, options));
  Options off;
  off.nan_check = NanCheck::kOff;
  EXPECT_FALSE(is_searched({}, off));
}

TEST(InputSearch, IsAheadForLargeOnesOfOneUnit) {
  const Options options;
  const auto ahead = [&](const Operation& operation) {
    return is_searched_ahead(operation, 4, options);
  };
  EXPECT_FALSE(ahead({.count = 1 << 20})) << "an all-reduce is searched by units";
  EXPECT_FALSE(ahead({.kind = Kind::kReduce, .count = kSmallCount}));
  EXPECT_TRUE(ahead({.kind = Kind::kReduce, .count = kSmallCount + 1}));
  EXPECT_FALSE(ahead({.kind = Kind::kReduceScatter, .count = kSmallCount / 4}));
  EXPECT_TRUE(ahead({.kind = Kind::kReduceScatter, .count = kSmallCount / 4 + 1}));
  EXPECT_TRUE(ahead(
      {.kind = Kind::kReduceScatter, .count = 1, .input_counts = {1, kSmallCount - 2, 1, 1}}));
}

TEST(InputSearch, IsByStepsForAllReducesThatTheCacheHolds) {
  const Options options;
  OpenOperation open;
  const auto by_steps = [&](int64_t count) {
    open.operation.count = count;
    return is_searched_by_steps(open, options);
  };
  EXPECT_FALSE(by_steps(kSmallCount));
  EXPECT_TRUE(by_steps(kSmallCount + 1));
  EXPECT_TRUE(by_steps(2 << 20));
  EXPECT_FALSE(by_steps((2 << 20) + 1));
  float residual = 0;
  open.operation.residual = &residual;
  EXPECT_FALSE(by_steps(2 << 20));
  Options stop;
  stop.nan_check = NanCheck::kStop;
  OpenOperation plain;
  plain.operation.count = 2 << 20;
  EXPECT_TRUE(is_searched_by_steps(plain, options));
  EXPECT_FALSE(is_searched_by_steps(plain, stop)) << "it may send nothing that is not finite";
}

TEST(InputSearch, CountsPlacesAsIfPartsFollowedOneAnother) {
  std::vector<float> x(10, 1.0f);
  x[8] = x[1] = x[4] = kBad;  // x[4] belongs to no part
  const NonFinite found = search_input({.kind = Kind::kReduceScatter,
                                        .count = 2,
                                        .input = x.data(),
                                        .input_counts = {2, 3},
                                        .input_displacements = {6, 0}},
                                       2, usable_isa());
  EXPECT_EQ(found.count, 1);
  EXPECT_EQ(found.first, 3);
  EXPECT_EQ(
      search_input({.kind = Kind::kReduceScatter, .count = 5, .input = x.data()}, 2, usable_isa())
          .count,
      3);
}

OpenOperation open_of(const std::vector<float>& x) {
  OpenOperation open;
  open.operation.count = std::ssize(x);
  open.input = reinterpret_cast<const std::byte*>(x.data());
  open.units = 1;
  return open;
}

TEST(InputSearch, LeavesLargeAllReducesToTheirUnits) {
  std::vector<float> x(kSmallCount + 1, kBad);
  OpenOperation large = open_of(x);
  EXPECT_FALSE(search_before_begin(large, 2, usable_isa()));
  EXPECT_TRUE(large.scans);
  EXPECT_EQ(large.non_finite, 0);
  x.resize(8);
  OpenOperation small = open_of(x);
  EXPECT_TRUE(search_before_begin(small, 2, usable_isa()));
  EXPECT_FALSE(small.scans);
  EXPECT_EQ(small.non_finite, 8);
}

TEST(InputSearch, TellsThePiecesOfAnOperationApart) {
  std::vector<float> x(8, 1.0f);
  x[3] = x[7] = kBad;
  OpenOperation open = open_of(x);
  for (const int64_t count : {2, 5, 1}) open.pieces.push_back({.count = count, .name = ""});
  EXPECT_TRUE(search_before_begin(open, 2, usable_isa()));
  EXPECT_EQ(open.non_finite, 2);
  EXPECT_EQ(open.first_non_finite, 3);
  EXPECT_EQ(open.pieces[0].non_finite.count, 0);
  EXPECT_EQ(open.pieces[1].non_finite.first, 1);
  EXPECT_EQ(open.pieces[2].non_finite.count, 1);
}

TEST(InputSearch, TakesWhatWasFoundAhead) {
  OpenOperation open;
  open.operation = {.kind = Kind::kReduce, .count = 1 << 20};  // without an input to read
  open.found_ahead = NonFinite{};
  EXPECT_FALSE(search_before_begin(open, 2, usable_isa()));
  open.found_ahead = NonFinite{.count = 2, .first = 5};
  EXPECT_TRUE(search_before_begin(open, 2, usable_isa()));
  EXPECT_EQ(open.non_finite, 2);
  EXPECT_EQ(open.first_non_finite, 5);
}

}  // namespace
}  // namespace stretto::comm
