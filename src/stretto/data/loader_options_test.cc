#include <gtest/gtest.h>

#include "stretto/data/loader_testing.h"

namespace stretto::data {
namespace {

TEST(LoaderOptions, SaysWhichOptionMakesNoSense) {
  const TestPictures pictures(5);
  const Dataset dataset = pictures.as_folder();
  const auto problem = [&](auto&& change) {
    LoaderOptions o = small_options();
    change(o);
    return error_of<InvalidArgument>([&] { Loader loader(dataset, o); });
  };
  const auto of_shape = [&](auto&& change) {
    return problem([&](LoaderOptions& o) { change(o.phases[0].shape); });
  };
  EXPECT_EQ(of_shape([](Shape& s) { s.batch = 0; }), "loader: batch is 0, expected 1 to 1048576");
  EXPECT_TRUE(says(of_shape([](Shape& s) { s.width = 0; }), "pictures of 0x24"));
  EXPECT_TRUE(says(of_shape([](Shape& s) { s.crop.min_area = -1; }), "crop: expected"));
  EXPECT_EQ(of_shape([](Shape& s) { s.batch = 6; }),
            "loader: an epoch has 5 samples, and 1 ranks with batches of 6 take 6: expected a "
            "smaller batch, or last=\"pad\" or \"wrap\"");
  EXPECT_EQ(problem([](auto& o) { o.rank = 2, o.world = 2; }),
            "loader: rank 2 of 2: expected a rank below the number of ranks");
  EXPECT_TRUE(says(problem([](auto& o) { o.dtype = DType::kInt32; }),
                   "dtype: expected float32, float16, bfloat16 or uint8, got int32"));
  EXPECT_TRUE(says(problem([](auto& o) { o.std[1] = 0; }), "channel 1"));
  EXPECT_TRUE(says(problem([](auto& o) { o.flip = 1.5; }), "flip is 1.5"));
  EXPECT_TRUE(says(problem([](auto& o) { o.threads = -1; }), "-1 threads"));
  EXPECT_TRUE(says(problem([](auto& o) { o.ahead = 0; }), "0 batches ahead"));
  EXPECT_TRUE(says(problem([](auto& o) { o.cache_bytes = -1; }), "-1 bytes"));
  EXPECT_TRUE(says(problem([](auto& o) { o.max_pixels = 0; }), "max_pixels is 0"));
  EXPECT_TRUE(says(problem([](auto& o) { o.phases.clear(); }), "first phase"));
  EXPECT_TRUE(says(problem([](auto& o) { o.phases.push_back(o.phases[0]); }), "expected later"));
  EXPECT_TRUE(says(problem([](auto& o) { o.order.kind = OrderKind::kWeighted; }), "0 weights"));
  Loader loader(dataset, small_options());
  EXPECT_THROW(loader.set_epoch(-1), InvalidArgument);
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { loader.load({.seed = 18}); }), "seed 18"));
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { loader.load({.seed = 17, .place = 6}); }),
                   "place 6 of epoch 0, which has 5"));
  EXPECT_EQ(rest_of_epoch(loader).size(), 1u);
}

}  // namespace
}  // namespace stretto::data
