#include "stretto/comm/engine/together.h"

#include <gtest/gtest.h>

#include <string>

namespace stretto::comm {
namespace {

using Places = std::vector<std::vector<size_t>>;

std::vector<Together> gathered(std::vector<Operation> operations, const Options& options = {},
                               size_t ranks = 2) {
  std::vector<Together> all;
  for (size_t at = 0; at < operations.size(); ++at)
    gather(all, std::move(operations[at]), at, operations.size(), ranks, options);
  return all;
}

Places places_of(const std::vector<Together>& all) {
  Places places;
  for (const Together& together : all) places.push_back(together.places);
  return places;
}

Options plain() {
  Options options;
  options.codec = "none";
  options.fuse_bytes = 1 << 20;
  return options;
}

TEST(Together, SmallAllReducesOfOneKindBecomePieces) {
  float x[3], y[2];
  const auto all = gathered({{.count = 3, .input = x, .output = x, .name = "x"},
                             {.dtype = DType::kInt32, .reduction = ReduceOp::kSum, .count = 1},
                             {.count = 2, .input = y, .output = y, .name = "y"}},
                            plain());
  ASSERT_EQ(places_of(all), (Places{{0, 2}, {1}}));
  EXPECT_EQ(all[0].operation.count, 5);
  EXPECT_EQ(all[0].operation.input, nullptr);
  ASSERT_EQ(all[0].pieces.size(), 2u);
  EXPECT_EQ(all[0].pieces[0].name, "x");
  EXPECT_EQ(all[0].pieces[1].input, y);
  EXPECT_EQ(all[0].pieces[1].output, y);
  EXPECT_EQ(all[0].pieces[1].count, 2);
  EXPECT_TRUE(all[1].pieces.empty()) << "one operation";
}

TEST(Together, OthersStayAsTheyAre) {
  float residual[4];
  const std::vector<Operation> others[] = {
      {{.kind = Kind::kBroadcast, .count = 4}, {.kind = Kind::kBroadcast, .count = 4}},
      {{.count = 4, .residual = residual}, {.count = 4}},
      {{.count = 4, .unseen = true}, {.count = 4, .unseen = true}},
      {{.count = 0}, {.count = 4}},
      {{.count = 4}, {.count = 4, .scanned = true}},
      {{.count = 4, .codec = "int8"}, {.count = 4}},
      {{.count = kSmallBytes / 4 + 1}, {.count = 4}},
      {{.count = 4}, {.count = kSmallBytes / 4 + 1}},
  };
  for (const auto& pair : others)
    EXPECT_EQ(places_of(gathered(pair, plain())), (Places{{0}, {1}})) << describe(pair[0]);
  EXPECT_EQ(places_of(gathered({{.count = 4}, {.count = 4}}, plain(), 1)), (Places{{0}, {1}}))
      << "a group of one rank";
}

TEST(Together, HaveAtMostTheBytesThatMayBeFused) {
  Options options = plain();
  options.fuse_bytes = 32;
  EXPECT_EQ(places_of(gathered({{.count = 4}, {.count = 4}, {.count = 1}, {.count = 5}}, options)),
            (Places{{0, 1}, {2, 3}}));
  options.fuse_bytes = 0;
  EXPECT_EQ(places_of(gathered({{.count = 4}, {.count = 4}}, options)), (Places{{0}, {1}}));
}

TEST(Together, TheShortestTimeoutHolds) {
  Options options = plain();
  options.operation_timeout_s = 60;
  const auto timeout_of = [&](double first_s, double second_s) {
    return gathered({{.count = 1, .timeout_s = first_s}, {.count = 1, .timeout_s = second_s}},
                    options)[0]
        .operation.timeout_s;
  };
  EXPECT_EQ(timeout_of(0, 0), 0);
  EXPECT_EQ(timeout_of(0, 30), 30);
  EXPECT_EQ(timeout_of(30, 0), 30);
  EXPECT_EQ(timeout_of(90, 0), 0);
  EXPECT_EQ(timeout_of(20, 10), 10);
}

}  // namespace
}  // namespace stretto::comm
