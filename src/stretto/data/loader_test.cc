#include "stretto/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "stretto/base/cpu.h"
#include "stretto/data/loader_testing.h"
#include "stretto/data/sample_work.h"
#include "stretto/media/decode.h"
#include "stretto/tensor/narrow.h"

namespace stretto::data {
namespace {

// What a sample of epoch 0 has to be, by the plain way: the whole picture, then fuse_with.
template <typename Fuse>
std::vector<float> by_hand(const TestPictures& pictures, const LoaderOptions& o, int64_t sample,
                           Fuse&& fuse_with) {
  const Shape& shape = o.phases[0].shape;
  const auto& file = pictures.file(sample);
  const media::PictureInfo info = media::read_info(file);
  const Draws draws{.seed = o.order.seed, .number = static_cast<uint64_t>(sample), .epoch = 0};
  const media::View view = view_of(o, shape, draws, info.width, info.height, info.orientation);
  std::vector<float> out(static_cast<size_t>(sample_elements(shape)));
  media::Target target =
      media::planar_target(out.data(), DType::kFloat32, shape.width, shape.height);
  target.mean = o.mean;
  target.std = o.std;
  fuse_with(view, info, target);
  return out;
}

TEST(Loader, GivesWhatFuseGives) {
  const TestPictures pictures(11);
  for (const bool train : {true, false}) {
    LoaderOptions o = small_options();
    o.train = train;
    o.last = Last::kPad;
    for (const Dataset& dataset : {pictures.as_folder(), pictures.as_pack()}) {
      Loader loader(dataset, o);
      EXPECT_EQ(loader.batches(0), 3);
      const auto given = rest_of_epoch(loader);
      ASSERT_EQ(given.size(), 3u);
      const auto indices = loader.indices(0);
      size_t at = 0;
      for (const Given& g : given) {
        for (size_t j = 0; j < g.samples.size(); ++j, ++at) {
          const int64_t sample = g.samples[j];
          EXPECT_EQ(sample, indices[at]);
          const auto* pixels = reinterpret_cast<const float*>(g.pixels.data()) + j * 3 * 24 * 20;
          const std::vector<float> got(pixels, pixels + 3 * 24 * 20);
          EXPECT_EQ(g.real[j], sample >= 0);
          if (sample < 0) {
            EXPECT_EQ(g.labels[j], -1);
            EXPECT_EQ(got, std::vector<float>(got.size()));
            continue;
          }
          EXPECT_EQ(g.labels[j], pictures.label(sample));
          media::Buffer buffer;
          media::FuseScratch scratch;
          EXPECT_EQ(got, by_hand(pictures, o, sample, [&](auto& view, auto& info, auto& target) {
                      media::fuse(media::decode_planes(pictures.file(sample),
                                                       {0, 0, info.width, info.height}, {}, buffer),
                                  view, std::nullopt, target, scratch, usable_isa());
                    }));
        }
      }
      EXPECT_EQ(at, 12u);
    }
  }
}

}  // namespace
}  // namespace stretto::data
