#include "stretto/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "stretto/base/error.h"

namespace stretto::data {
namespace {

std::vector<int64_t> all_of(const OrderOptions& options, int64_t size, int64_t epoch = 0) {
  check_order(options, size);
  const Order order(options, size, epoch);
  std::vector<int64_t> all;
  for (int64_t p = 0; p < order.size(); ++p) all.push_back(order(p));
  return all;
}

std::vector<int64_t> sorted(std::vector<int64_t> v) {
  std::sort(v.begin(), v.end());
  return v;
}

std::vector<int64_t> first_numbers(int64_t size) {
  std::vector<int64_t> v(static_cast<size_t>(size));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

// Five standard deviations above what chance gives. The seeds are fixed.
double chi_limit(int64_t cells) {
  const auto freedom = static_cast<double>(cells - 1);
  return freedom + 5 * std::sqrt(2 * freedom);
}

double chi_square(const std::vector<int64_t>& counts) {
  const double expected =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0})) /
      static_cast<double>(counts.size());
  double sum = 0;
  for (const int64_t c : counts) {
    sum += (static_cast<double>(c) - expected) * (static_cast<double>(c) - expected) / expected;
  }
  return sum;
}

TEST(Permutation, IsOneForEverySize) {
  for (uint64_t size = 1; size <= 3000; ++size) {
    const Permutation p(7, size, size);
    std::vector<char> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t v = p(i);
      ASSERT_LT(v, size);
      ASSERT_FALSE(seen[v]) << v << " comes twice of " << size;
      seen[v] = 1;
      ASSERT_EQ(p.where_is(v), i);
    }
  }
}

TEST(Permutation, GoesBackForBigSizes) {
  std::mt19937_64 random(3);
  for (const uint64_t size :
       {uint64_t{1'281'167}, (uint64_t{1} << 32) + 1, uint64_t{1} << 40, uint64_t{1} << 62}) {
    const Permutation p(1, 2, size);
    for (int i = 0; i < 2000; ++i) {
      const uint64_t index = random() % size, v = p(index);
      ASSERT_LT(v, size);
      ASSERT_EQ(p.where_is(v), index);
    }
  }
}

TEST(Permutation, AllPermutationsOfFourAreEquallyLikely) {
  std::map<std::array<uint64_t, 4>, int64_t> counts;
  for (uint64_t epoch = 0; epoch < 24000; ++epoch) {
    const Permutation p(5, epoch, 4);
    ++counts[{p(0), p(1), p(2), p(3)}];
  }
  ASSERT_EQ(counts.size(), 24u);
  std::vector<int64_t> values;
  for (const auto& [permutation, count] : counts) values.push_back(count);
  EXPECT_LT(chi_square(values), chi_limit(24));
}

TEST(Permutation, EverySampleIsEverywhereEquallyOften) {
  constexpr uint64_t kSize = 100;
  std::vector<int64_t> counts(kSize * kSize);
  for (uint64_t epoch = 0; epoch < 10000; ++epoch) {
    const Permutation p(11, epoch, kSize);
    for (uint64_t i = 0; i < kSize; ++i) ++counts[i * kSize + p(i)];
  }
  // Rows and columns add up to the number of epochs: (n - 1)^2 degrees of freedom.
  const double freedom = (kSize - 1) * (kSize - 1);
  EXPECT_LT(chi_square(counts), freedom + 5 * std::sqrt(2 * freedom));
}

// Places whose indices differ by powers of two share half of the network's input.
TEST(Permutation, NeighboursGoTheirOwnWays) {
  constexpr int64_t kSize = 1'000'000, kCells = 100;
  for (const int64_t distance : {1, 2, 512, 1024, 2048, 65536}) {
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      const Permutation p(13, epoch, kSize);
      std::vector<int64_t> counts(kCells), pairs(kCells);
      double product = 0;
      for (int64_t i = 0; i + distance < kSize; ++i) {
        const auto a = static_cast<int64_t>(p(static_cast<uint64_t>(i)));
        const auto b = static_cast<int64_t>(p(static_cast<uint64_t>(i + distance)));
        ++counts[static_cast<size_t>(((b - a + kSize) % kSize) * kCells / kSize)];
        ++pairs[static_cast<size_t>(a * 10 / kSize * 10 + b * 10 / kSize)];
        product += (static_cast<double>(a) / kSize - 0.5) * (static_cast<double>(b) / kSize - 0.5);
      }
      EXPECT_LT(chi_square(counts), chi_limit(kCells)) << distance << " in epoch " << epoch;
      EXPECT_LT(chi_square(pairs), chi_limit(kCells)) << distance << " in epoch " << epoch;
      // The correlation of independent numbers: 1 / sqrt(n) is one standard deviation.
      EXPECT_LT(std::abs(product / kSize * 12), 5 / std::sqrt(static_cast<double>(kSize)));
    }
  }
}

TEST(Permutation, SeedsAndEpochsGiveOthers) {
  const auto order = [](uint64_t seed, int64_t epoch) { return all_of({.seed = seed}, 50, epoch); };
  EXPECT_EQ(order(1, 1), order(1, 1));
  EXPECT_NE(order(1, 1), order(1, 2));
  EXPECT_NE(order(1, 1), order(2, 1));
  EXPECT_NE(order(1, 0), order(uint64_t{1} << 32 | 1, 0));
}

TEST(Order, BlocksHoldEverySampleOnce) {
  for (const int64_t size : {1, 2, 7, 64, 65, 100, 1000}) {
    for (const int64_t block : {1, 2, 7, 16, 5000}) {
      for (const int64_t window : {1, 2, 3, 50}) {
        for (int64_t epoch = 0; epoch < 3; ++epoch) {
          const OrderOptions o{
              .kind = OrderKind::kBlocks, .seed = 5, .block = block, .window = window};
          ASSERT_EQ(sorted(all_of(o, size, epoch)), first_numbers(size))
              << size << " in blocks of " << block << ", window " << window;
        }
      }
    }
  }
}

TEST(Order, AWindowOfBlocksIsReadAtATime) {
  constexpr int64_t kSize = 1003, kBlock = 10, kWindow = 4;
  const OrderOptions o{.kind = OrderKind::kBlocks, .seed = 2, .block = kBlock, .window = kWindow};
  bool mixed = false;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto all = all_of(o, kSize, epoch);
    // The last block has 3 samples: places go in fours of blocks, wherever it is.
    size_t p = 0;
    while (p < all.size()) {
      std::set<int64_t> blocks, next;
      int64_t places = 0;
      while (p < all.size()) {
        (next = blocks).insert(all[p] / kBlock);
        if (next.size() > kWindow) break;
        blocks = next;
        ++places;
        ++p;
      }
      EXPECT_LE(places, kWindow * kBlock);
      if (p < all.size()) {
        EXPECT_GE(places, (kWindow - 1) * kBlock + 3);
      }
      mixed |= blocks.size() == kWindow;
    }
    int64_t same = 0;
    for (size_t i = 1; i < all.size(); ++i) same += all[i] / kBlock == all[i - 1] / kBlock;
    EXPECT_LT(same, kSize / 2);
  }
  EXPECT_TRUE(mixed);
}

TEST(Order, WeightsAreChances) {
  constexpr int64_t kEpoch = 200'000;
  const std::vector<double> weights{0, 1, 2, 0, 5, 2, 0};
  const OrderOptions o{.kind = OrderKind::kWeighted,
                       .seed = 9,
                       .cumulative = cumulative_weights(weights),
                       .epoch_size = kEpoch};
  for (int64_t epoch : {0, 1, 1 << 25}) {
    std::vector<int64_t> counts(weights.size());
    for (const int64_t s : all_of(o, 7, epoch)) ++counts[static_cast<size_t>(s)];
    double chi = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double expected = weights[i] / 10 * kEpoch;
      if (expected == 0) {
        EXPECT_EQ(counts[i], 0);
      } else {
        chi += std::pow(static_cast<double>(counts[i]) - expected, 2) / expected;
      }
    }
    EXPECT_LT(chi, chi_limit(4)) << "epoch " << epoch;
  }
  for (const int64_t epoch : {1, 1 << 24}) EXPECT_NE(all_of(o, 7, 0), all_of(o, 7, epoch));
}

TEST(Order, ClassesAreBalanced) {
  const std::vector<int64_t> labels{0, 0, 0, 0, 0, 0, 1, 2, 2, -1};
  const OrderOptions o{.kind = OrderKind::kWeighted,
                       .cumulative = cumulative_weights(class_balanced_weights(labels)),
                       .epoch_size = 90'000};
  std::vector<int64_t> counts(3);
  for (const int64_t s : all_of(o, 10)) {
    ASSERT_GE(labels[static_cast<size_t>(s)], 0);
    ++counts[static_cast<size_t>(labels[static_cast<size_t>(s)])];
  }
  EXPECT_LT(chi_square(counts), chi_limit(3));
}

TEST(Order, SourcesHaveTheirSharesInEveryPeriod) {
  const OrderOptions o{.seed = 4,
                       .source_sizes = {100, 5000, 30},
                       .source_weights = {1, 2, 0.003},
                       .epoch_size = 5 * kMixPeriod};
  const auto source_of = [](int64_t s) { return s < 100 ? 0 : s < 5100 ? 1 : 2; };
  const auto all = all_of(o, 5130);
  std::array<int64_t, 3> first{};
  for (int64_t period = 0; period < 5; ++period) {
    std::array<int64_t, 3> counts{};
    for (int64_t i = 0; i < kMixPeriod; ++i) {
      ++counts[static_cast<size_t>(source_of(all[static_cast<size_t>(period * kMixPeriod + i)]))];
    }
    EXPECT_EQ(counts[0] + counts[1] + counts[2], kMixPeriod);
    EXPECT_NEAR(static_cast<double>(counts[0]), kMixPeriod / 3.003, 1);
    EXPECT_NEAR(static_cast<double>(counts[2]), kMixPeriod * 0.003 / 3.003, 1);
    if (period == 0) first = counts;
    EXPECT_EQ(counts, first);
  }
}

TEST(Order, SourcesAreWalkedThroughAndReshuffled) {
  for (const OrderKind kind : {OrderKind::kShuffled, OrderKind::kSequential, OrderKind::kBlocks}) {
    const OrderOptions o{.kind = kind,
                         .seed = 4,
                         .block = 8,
                         .window = 2,
                         .source_sizes = {50, 1000},
                         .source_weights = {1, 1},
                         .epoch_size = 777};
    std::array<std::vector<int64_t>, 2> walks;
    for (int64_t epoch = 0; epoch < 40; ++epoch) {
      for (const int64_t s : all_of(o, 1050, epoch)) walks[s >= 50].push_back(s);
    }
    // Slots of a period are not in the order of the walk: only whole periods hold whole passes.
    std::map<int64_t, int64_t> counts;
    for (const int64_t s : walks[0]) ++counts[s];
    ASSERT_EQ(counts.size(), 50u);
    const auto [low, high] = std::minmax_element(
        counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
    EXPECT_LE(high->second - low->second, 45);  // a period of 2048 is 41 passes
    counts.clear();
    for (const int64_t s : walks[1]) ++counts[s];
    EXPECT_EQ(counts.size(), 1000u);
  }
}

TEST(Order, SaysWhatMakesNoSense) {
  const auto problem = [](const OrderOptions& o, int64_t size = 10) -> std::string {
    try {
      check_order(o, size);
    } catch (const InvalidArgument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(problem({}), "");
  EXPECT_EQ(problem({}, 0), "order: the dataset has no samples");
  EXPECT_EQ(problem({.kind = OrderKind::kBlocks, .block = 0}),
            "order: blocks of 0 in windows of 4: expected at least 1");
  EXPECT_EQ(problem({.kind = OrderKind::kWeighted}), "order: 0 weights for 10 samples");
  EXPECT_EQ(problem({.source_sizes = {4, 7}, .source_weights = {1, 1}}),
            "order: source 1 has 7 samples, of 6 that are left of the dataset");
  EXPECT_EQ(problem({.source_sizes = {4}, .source_weights = {1}}),
            "order: sources of 4 samples in a dataset of 10");
  EXPECT_EQ(problem({.source_sizes = {4, 6}, .source_weights = {1}}),
            "order: 2 sources, but 1 weights for them");
  EXPECT_EQ(problem({.source_sizes = {4, 6}, .source_weights = {1, -1}}),
            "order: weight 1 is -1: expected a number of at least 0");
  EXPECT_EQ(
      problem({.source_sizes = {4, 6}, .source_weights = {1, 1e-5}}),
      "order: weight 1e-05 of source 1 is less than one sample in 4096: expected more, or 0 to "
      "leave it out");
  EXPECT_NE(problem({.epoch_size = 5}), "");
  const auto sums = std::make_shared<std::vector<double>>(std::vector<double>{1, 0.5});
  EXPECT_NE(problem({.kind = OrderKind::kWeighted, .cumulative = sums}, 2), "");
  EXPECT_THROW(cumulative_weights(std::vector<double>{0, 0}), InvalidArgument);
  EXPECT_THROW(cumulative_weights(std::vector<double>{1, NAN}), InvalidArgument);
}

// What the ranks are given, batch by batch, one after the other.
std::vector<int64_t> global_batches(int64_t places, int64_t batch, int64_t world, Last last,
                                    int64_t first_place = 0) {
  std::vector<int64_t> all;
  const int64_t count =
      batches_of(places, {.batch = batch, .world = world, .last = last}, first_place);
  for (int64_t b = 0; b < count; ++b) {
    for (int64_t rank = 0; rank < world; ++rank) {
      const Cut cut{.batch = batch, .rank = rank, .world = world, .last = last};
      EXPECT_EQ(batches_of(places, cut, first_place), count);
      for (int64_t j = 0; j < batch; ++j) {
        all.push_back(place_of(places, cut, first_place + b * batch * world, j));
      }
    }
  }
  return all;
}

TEST(Cut, IsTheSameForAnyWorld) {
  for (const int64_t places : {1, 11, 12, 13, 47, 48, 49, 100}) {
    for (const Last last : {Last::kDrop, Last::kPad, Last::kWrap}) {
      for (const int64_t first : {int64_t{0}, places / 24 * 12, places}) {
        const auto one = global_batches(places, 12, 1, last, first);
        for (const int64_t world : {2, 3, 4, 6, 12}) {
          EXPECT_EQ(global_batches(places, 12 / world, world, last, first), one);
        }
        // Going on at a place is what would have come there.
        if (last != Last::kWrap || places % 12 == 0 || first < places) {
          const auto whole = global_batches(places, 12, 1, last);
          const auto begin = whole.begin() + std::min<int64_t>(first, std::ssize(whole));
          EXPECT_TRUE(std::equal(one.begin(), one.end(), begin,
                                 begin + std::min<int64_t>(std::ssize(one), whole.end() - begin)));
        }
      }
    }
  }
}

TEST(Cut, TheRanksTogetherHaveTheEpoch) {
  EXPECT_EQ(global_batches(10, 2, 2, Last::kDrop), first_numbers(8));
  auto padded = first_numbers(10);
  padded.insert(padded.end(), 2, -1);
  EXPECT_EQ(global_batches(10, 2, 2, Last::kPad), padded);
  auto wrapped = first_numbers(10);
  wrapped.insert(wrapped.end(), {0, 1});
  EXPECT_EQ(global_batches(10, 2, 2, Last::kWrap), wrapped);
  EXPECT_EQ(global_batches(3, 2, 4, Last::kWrap), (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_TRUE(global_batches(3, 2, 4, Last::kDrop).empty());
}

}  // namespace
}  // namespace stretto::data
