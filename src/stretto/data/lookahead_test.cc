#include "stretto/data/lookahead.h"

#include <gtest/gtest.h>

#include <map>

#include "stretto/base/error.h"
#include "stretto/data/index.h"

namespace stretto::data {
namespace {

constexpr int64_t kContainers = 7, kEach = 60, kPlaces = kContainers * kEach;

Dataset in_containers() {
  TableBuilder builder;
  for (int64_t i = 0; i < kPlaces; ++i) {
    builder.add(std::to_string(i),
                {.offset = 0, .length = 1, .container = static_cast<uint32_t>(i / kEach)});
  }
  for (int64_t c = 0; c < kContainers; ++c) {
    builder.table().containers.push_back(fmt::format("u://{}", c));
  }
  return Dataset(std::move(builder).take());
}

Dataset in_files() {
  TableBuilder builder;
  for (int64_t i = 0; i < kPlaces; ++i) builder.add(std::to_string(i), {});
  builder.table().one_file_each_below = "u://f";
  return Dataset(std::move(builder).take());
}

struct Case {
  OrderOptions order;
  Cut cut{.batch = 4};
};

Lookahead::Plan plan_of(const Case& c) {
  return {.places = kPlaces,
          .order =
              [c](int64_t epoch) { return std::make_shared<const Order>(c.order, kPlaces, epoch); },
          .cut = [c](int64_t) { return c.cut; }};
}

std::vector<int64_t> all_next(Lookahead& ahead) {
  std::vector<int64_t> files;
  for (bool more = true; more;) {
    if (const auto next = ahead.next(more)) {
      files.push_back(next->file);
      more = true;
    }
  }
  return files;
}

OrderOptions blocks() { return {.kind = OrderKind::kBlocks, .seed = 3, .block = 30, .window = 2}; }

TEST(Lookahead, FilesComeInTheOrderOfTheirFirstUse) {
  for (const OrderOptions& order :
       {OrderOptions{.kind = OrderKind::kSequential}, blocks(), OrderOptions{.seed = 8}}) {
    const Dataset dataset = in_containers();
    Lookahead ahead(dataset, plan_of({.order = order}));
    std::vector<int64_t> expected;
    const Order epoch(order, kPlaces, 0);
    for (int64_t p = 0; p < kPlaces; ++p) {
      const int64_t file = epoch(p) / kEach;
      if (std::find(expected.begin(), expected.end(), file) == expected.end()) {
        expected.push_back(file);
      }
    }
    EXPECT_EQ(all_next(ahead), expected);
    EXPECT_TRUE(all_next(ahead).empty()) << "each is asked for once";
  }
}

// The next use of each file, by looking through the places.
std::map<int64_t, int64_t> by_hand(const OrderOptions& order, int64_t begin) {
  std::map<int64_t, int64_t> uses;
  for (int64_t p = begin; p < (begin / kPlaces + 2) * kPlaces; ++p) {
    const Order epoch(order, kPlaces, p / kPlaces);
    uses.try_emplace(epoch(p % kPlaces) / kEach, p - begin);
  }
  return uses;
}

TEST(Lookahead, KnowsWhenEachFileIsNeededNext) {
  const Dataset dataset = in_containers();
  Lookahead ahead(dataset, plan_of({.order = blocks()}));
  // On, into the next epoch, back, and far ahead.
  for (const int64_t at : {0, 4, 100, 333, 415, 500, 40, 9000}) {
    ahead.move_to(at / kPlaces, at % kPlaces);
    std::map<int64_t, int64_t> uses;
    for (const auto& next : ahead.uses()) uses[next.file] = next.use;
    EXPECT_EQ(uses, by_hand(blocks(), at)) << "at " << at;
  }
}

TEST(Lookahead, AsksForTheFilesOfItsRankOnly) {
  const Dataset dataset = in_files();
  for (int64_t rank = 0; rank < 3; ++rank) {
    const Case c{.order = {.seed = 5}, .cut = {.batch = 4, .rank = rank, .world = 3}};
    Lookahead ahead(dataset, plan_of(c));
    ahead.move_to(0, 24);
    std::vector<int64_t> expected;
    const Order order(c.order, kPlaces, 0);
    for (int64_t p = 24; p < kPlaces; ++p) {
      if ((p - 24) / 4 % 3 == rank) expected.push_back(order(p));
    }
    std::vector<int64_t> files = all_next(ahead);
    ASSERT_GE(files.size(), expected.size());
    files.resize(expected.size());  // the others are of the next epoch
    EXPECT_EQ(files, expected);
  }
}

TEST(Lookahead, WhatIsPutBackComesAgain) {
  const Dataset dataset = in_containers();
  Lookahead ahead(dataset, plan_of({.order = {.kind = OrderKind::kSequential}}));
  bool more = false;
  const auto first = ahead.next(more), second = ahead.next(more);
  ASSERT_TRUE(first && second);
  ahead.put_back(*second);
  EXPECT_EQ(ahead.next(more)->file, second->file);
  // A file that is behind is not asked for until the next epoch.
  ahead.move_to(0, 3 * kEach);
  ahead.put_back(*first);
  EXPECT_EQ(all_next(ahead), (std::vector<int64_t>{3, 4, 5, 6, 0, 1, 2}));
}

}  // namespace
}  // namespace stretto::data
