// Batches that ranks divide unequally.
#include <gtest/gtest.h>

#include <memory>

#include "stretto/base/error.h"
#include "stretto/data/loader_testing.h"

namespace stretto::data {
namespace {

constexpr int64_t kBatch = 8;

LoaderOptions divided(int64_t rank, int64_t world, Last last = Last::kDrop) {
  LoaderOptions o = small_options();
  o.phases[0].shape.batch = kBatch;
  o.last = last;
  o.rank = rank;
  o.world = world;
  o.divided = world > 1;
  return o;
}

// From one place on, samples of each rank.
struct Change {
  int64_t epoch, place;
  std::vector<int64_t> counts;
};

void divide(std::vector<std::unique_ptr<Loader>>& ranks, const std::vector<Change>& changes) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    std::vector<Division> rows;
    for (const Change& change : changes) {
      int64_t first = 0;
      for (size_t before = 0; before < r; ++before) first += change.counts[before];
      rows.push_back({change.epoch, change.place, first, change.counts[r]});
    }
    ranks[r]->divide(rows);
  }
}

std::vector<std::unique_ptr<Loader>> loaders(const Dataset& dataset, int64_t world,
                                             Last last = Last::kDrop) {
  std::vector<std::unique_ptr<Loader>> ranks;
  for (int64_t r = 0; r < world; ++r) {
    ranks.push_back(std::make_unique<Loader>(dataset, divided(r, world, last)));
  }
  return ranks;
}

TEST(LoaderDivide, RanksTogetherGiveTheBatchesOfOne) {
  const TestPictures pictures(45);
  const Dataset dataset = pictures.as_pack();
  for (const Last last : {Last::kDrop, Last::kWrap}) {
    Loader alone(dataset, divided(0, 1, last));
    const auto expected = std::array{rest_of_epoch(alone), rest_of_epoch(alone)};
    auto ranks = loaders(dataset, 3, last);
    divide(ranks, {{0, 0, {5, 2, 1}}, {0, 3 * kBatch, {1, 1, 6}}, {1, kBatch, {2, 5, 1}}});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::vector<Given>> given;
      for (auto& rank : ranks) {
        const auto indices = rank->indices(epoch);
        given.push_back(rest_of_epoch(*rank));
        std::vector<int64_t> samples;
        for (const Given& g : given.back()) {
          samples.insert(samples.end(), g.samples.begin(), g.samples.end());
        }
        EXPECT_EQ(samples, indices);
      }
      EXPECT_EQ(given[0][2].samples.size(), epoch == 0 ? 5u : 2u);
      EXPECT_EQ(given[2][3].samples.size(), epoch == 0 ? 6u : 1u);
      EXPECT_EQ(together(given), expected[static_cast<size_t>(epoch)]);
    }
  }
}

TEST(LoaderDivide, BatchesInTheMakingAreMadeAgain) {
  const TestPictures pictures(48);
  const Dataset dataset = pictures.as_folder();
  Loader alone(dataset, divided(0, 1));
  const auto expected = rest_of_epoch(alone);
  auto ranks = loaders(dataset, 2);
  std::vector<std::vector<Given>> given(2);
  for (int64_t batch = 0; batch < 6; ++batch) {
    // At once, though the next batches are ready.
    divide(ranks, {{0, batch * kBatch, {1 + batch, 7 - batch}}});
    for (size_t r = 0; r < 2; ++r) {
      given[r].push_back(copy_of(*ranks[r]->next()));
      EXPECT_EQ(std::ssize(given[r].back().samples), r == 0 ? 1 + batch : 7 - batch);
    }
  }
  EXPECT_EQ(together(given), expected);
}

TEST(LoaderDivide, GoesOnAtAPositionWithOtherShares) {
  const TestPictures pictures(48);
  const Dataset dataset = pictures.as_folder();
  Loader alone(dataset, divided(0, 1));
  auto expected = rest_of_epoch(alone);
  expected.erase(expected.begin(), expected.begin() + 2);
  auto first = loaders(dataset, 2);
  divide(first, {{0, 0, {3, 5}}});
  for (int batch = 0; batch < 2; ++batch) ASSERT_TRUE(first[0]->next());
  auto ranks = loaders(dataset, 2);
  std::vector<std::vector<Given>> given;
  divide(ranks, {{0, 0, {6, 2}}});
  for (auto& rank : ranks) {
    rank->load(first[0]->position());
    given.push_back(rest_of_epoch(*rank));
  }
  EXPECT_EQ(together(given), expected);
}

TEST(LoaderDivide, RanksHaveEquallyManyAtFirst) {
  const TestPictures pictures(16);
  auto ranks = loaders(pictures.as_folder(), 3);
  std::vector<int64_t> counts;
  counts.reserve(ranks.size());
  for (auto& rank : ranks) counts.push_back(rank->next()->count);
  EXPECT_EQ(counts, (std::vector<int64_t>{2, 3, 3}));
}

TEST(LoaderDivide, PartsThatABatchDoesNotHaveAreRefused) {
  const TestPictures pictures(16);
  Loader loader(pictures.as_folder(), divided(0, 2));
  for (const Division& row : {Division{0, 0, 0, 9}, Division{0, 0, 8, 1}, Division{0, 0, 0, 0},
                              Division{0, 0, -1, 2}, Division{-1, 0, 0, 1}}) {
    EXPECT_THROW(loader.divide({row}), InvalidArgument);
  }
  EXPECT_THROW(loader.divide({{1, 0, 0, 1}, {0, 0, 0, 1}}), InvalidArgument);
  Loader whole(pictures.as_folder(), divided(0, 1));
  EXPECT_THROW(whole.divide({{0, 0, 0, 1}}), InvalidArgument);
  LoaderOptions o = divided(0, 2, Last::kPad);
  EXPECT_THROW(Loader(pictures.as_folder(), o), InvalidArgument);
  o.last = Last::kDrop;
  o.transforms = media::operators::parse_operators("mixup(0.2)");
  o.classes = 9;
  EXPECT_THROW(Loader(pictures.as_folder(), o), InvalidArgument);
}

}  // namespace
}  // namespace stretto::data
