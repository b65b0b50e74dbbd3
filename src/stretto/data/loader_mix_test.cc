// MixUp and CutMix on the loader's threads.
#include "stretto/data/loader_testing.h"
#include "stretto/media/operators/mix.h"

namespace stretto::data {
namespace {

using media::operators::parse_operators;

constexpr int64_t kElements = 3 * 24 * 20, kClasses = 9;

struct MixedBatch {
  Given given;
  std::vector<float> targets;
  bool operator==(const MixedBatch&) const = default;
};

std::vector<MixedBatch> mixed_epoch(Loader& loader) {
  std::vector<MixedBatch> all;
  while (const auto batch = loader.next()) {
    EXPECT_EQ(batch->classes, kClasses);
    all.push_back({copy_of(*batch), {batch->targets, batch->targets + batch->count * kClasses}});
  }
  return all;
}

LoaderOptions mixing_options(std::string_view transforms) {
  LoaderOptions o = small_options();
  o.transforms = parse_operators(transforms);
  o.classes = kClasses;
  return o;
}

std::vector<float> floats_of(const std::string& pixels, size_t j) {
  const auto* at = reinterpret_cast<const float*>(pixels.data()) + j * kElements;
  return {at, at + kElements};
}

// Sample j of a batch from the pictures without mixing, by the definition of torchvision's classes.
void expect_mixed(const LoaderOptions& o, const Given& plain, const MixedBatch& got, size_t j,
                  int64_t first_place) {
  const size_t a = j / 2 * 2, other = j ^ 1;
  const auto plan = media::operators::draw_mix(media::operators::mixing_of(o.transforms), {20, 24},
                                               {.seed = o.order.seed ^ 0x706C616365000000,
                                                .epoch = static_cast<uint32_t>(plain.epoch),
                                                .sample = static_cast<uint64_t>(first_place) + a});
  const auto own = floats_of(plain.pixels, j), partner = floats_of(plain.pixels, other);
  const auto pixels = floats_of(got.given.pixels, j);
  for (size_t i = 0; i < pixels.size(); ++i) {
    const auto x = static_cast<int64_t>(i % 20), y = static_cast<int64_t>(i / 20 % 24);
    const bool in_box = x >= plan.box.x0 && x < plan.box.x1 && y >= plan.box.y0 && y < plan.box.y1;
    const double l = plan.mix == media::operators::Mix::kMixUp ? plan.lambda : in_box ? 0 : 1;
    ASSERT_NEAR(pixels[i], l * own[i] + (1 - l) * partner[i], 1e-6);  // roundings of values to 3
  }
  for (int64_t c = 0; c < kClasses; ++c) {
    const double want =
        plan.lambda * (plain.labels[j] == c) + (1 - plan.lambda) * (plain.labels[other] == c);
    ASSERT_NEAR(got.targets[j * kClasses + static_cast<size_t>(c)], want, 1e-6);
  }
}

TEST(LoaderMix, PairsAreMixedByTheirPlans) {
  const TestPictures pictures(18);
  for (const char* transforms : {"mixup(0.4)", "cutmix", "mixup(0.2), cutmix(1)"}) {
    const LoaderOptions o = mixing_options(transforms);
    LoaderOptions plain = o;
    plain.transforms.clear();
    Loader mixed(pictures.as_folder(), o), without(pictures.as_folder(), plain);
    for (int epoch = 0; epoch < 2; ++epoch) {
      const auto got = mixed_epoch(mixed);
      const auto before = rest_of_epoch(without);
      ASSERT_EQ(got.size(), before.size());
      for (size_t b = 0; b < got.size(); ++b) {
        EXPECT_EQ(got[b].given.samples, before[b].samples);
        for (size_t j = 0; j < 4; ++j) {
          expect_mixed(o, before[b], got[b], j, static_cast<int64_t>(4 * b));
        }
      }
    }
  }
}

TEST(LoaderMix, BitsDependOnNoThreadRankOrResume) {
  const TestPictures pictures(26);
  for (const Last last : {Last::kDrop, Last::kPad, Last::kWrap}) {
    LoaderOptions o = mixing_options("rand_augment, mixup(0.2), cutmix(1)");
    o.last = last;
    o.threads = 1;
    o.phases[0].shape.batch = 12;
    Loader one(pictures.as_folder(), o);
    const auto want = mixed_epoch(one);
    for (const int64_t world : {2, 3}) {
      std::vector<std::vector<MixedBatch>> ranks;
      for (int64_t rank = 0; rank < world; ++rank) {
        LoaderOptions part = o;
        part.rank = rank;
        part.world = world;
        part.threads = 3;
        part.phases[0].shape.batch = 12 / world;
        Loader loader(pictures.as_pack(), part);
        loader.load({.seed = o.order.seed, .epoch = 0, .place = 12});
        ranks.push_back(mixed_epoch(loader));
        ASSERT_EQ(ranks.back().size(), want.size() - 1);
      }
      for (size_t b = 1; b < want.size(); ++b) {
        MixedBatch all;
        for (const auto& rank : ranks) {
          const MixedBatch& part = rank[b - 1];
          all.given.pixels += part.given.pixels;
          all.targets.insert(all.targets.end(), part.targets.begin(), part.targets.end());
        }
        EXPECT_EQ(all.given.pixels, want[b].given.pixels) << "world " << world << " batch " << b;
        EXPECT_EQ(all.targets, want[b].targets);
      }
    }
  }
}

TEST(LoaderMix, WithoutAPartnerASampleStaysAsItIs) {
  const TestPictures pictures(5);
  LoaderOptions o = mixing_options("mixup");
  o.last = Last::kPad;
  Loader mixed(pictures.as_folder(), o);
  o.transforms.clear();
  Loader plain(pictures.as_folder(), o);
  const auto got = mixed_epoch(mixed);
  const auto before = rest_of_epoch(plain);
  ASSERT_EQ(got.size(), 2);
  EXPECT_EQ(got[1].given, before[1]);  // one sample and padding
  for (size_t j = 0; j < 4; ++j) {
    double sum = 0;
    for (size_t c = 0; c < kClasses; ++c) sum += got[1].targets[j * kClasses + c];
    EXPECT_EQ(sum, before[1].labels[j] >= 0 ? 1 : 0) << j;
  }
}

TEST(LoaderMix, WhatCannotBeMixedIsRefused) {
  const TestPictures pictures(6);
  const auto error = [&](const LoaderOptions& o) {
    return error_of<InvalidArgument>([&] { Loader loader(pictures.as_folder(), o); });
  };
  LoaderOptions o = mixing_options("mixup");
  o.phases[0].shape.batch = 3;
  EXPECT_TRUE(says(error(o), "batch is 3: expected an even number"));
  o.phases[0].shape.batch = 2;
  o.classes = 4;
  EXPECT_TRUE(says(error(o), "sample p4.jpg has label 4, expected labels below 4"));
  o.classes = 0;
  EXPECT_TRUE(says(error(o), "has no names of classes"));
  o.classes = 9;
  o.boxes = true;
  EXPECT_TRUE(says(error(o), "not boxes or masks"));
}

}  // namespace
}  // namespace stretto::data
