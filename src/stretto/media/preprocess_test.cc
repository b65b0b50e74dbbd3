#include "stretto/media/preprocess.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "stretto/base/error.h"

namespace stretto::media {
namespace {

std::vector<uint8_t> pixels_of(int64_t width, int64_t height, int channels) {
  std::vector<uint8_t> pixels(static_cast<size_t>(width * height * channels));
  uint32_t state = 7;
  for (size_t i = 0; i < pixels.size(); ++i) {
    state = state * 1664525 + 1013904223;
    pixels[i] = static_cast<uint8_t>((i / 3 % 200) + (state >> 27));
  }
  return pixels;
}

std::vector<float> made(const Preprocess& p, const std::vector<uint8_t>& pixels, int64_t width,
                        int64_t height, bool grey, Channels channels, Isa isa) {
  std::vector<float> out(static_cast<size_t>(3 * p.size.width * p.size.height), -1000.f);
  FuseScratch scratch;
  preprocess_pixels(p, pixels.data(), width, height, grey, DType::kFloat32, channels, out.data(),
                    scratch, isa);
  return out;
}

TEST(Preprocess, TextIsReadAsItIsWritten) {
  for (const char* text :
       {"imagenet(224)", "imagenet(size=224, resize=232, mean=0.5, std=[0.25, 0.5, 1e-1])",
        "resize(256, filter=cubic), center_crop(224, 192), normalize()",
        "resize(100, 80), center_crop(96, 64)", " resize( 64 , 48 ) ", "letterbox(640)",
        "letterbox(384, 640, fill=0, filter=box), normalize(0, 1), to_layout(NHWC)"}) {
    const Preprocess read = parse_preprocess(text);
    EXPECT_EQ(parse_preprocess(preprocess_text(read)), read) << preprocess_text(read);
  }
  EXPECT_EQ(parse_preprocess("imagenet(224)"),
            parse_preprocess("resize(256), center_crop(224), normalize()"));
  const Preprocess p = parse_preprocess("imagenet(224, mean=0.5, std=[0.25, 0.5, 1])");
  EXPECT_EQ(p.shorter, 256);
  EXPECT_EQ(p.mean, (std::array<float, 3>{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(p.std, (std::array<float, 3>{0.25f, 0.5f, 1.f}));
  EXPECT_EQ(preprocess_text(parse_preprocess("resize(100, 80)")),
            "resize(100, 80), normalize(mean=[0, 0, 0], std=[1, 1, 1])");
}

// Any bytes of an artefact may come as the text.
TEST(Preprocess, WrongTextIsRefusedInWords) {
  for (const char* text : {"",
                           ",",
                           "(",
                           ")",
                           "imagenet",
                           "imagenet()",
                           "imagenet(",
                           "imagenet(224",
                           "imagenet(224))",
                           "imagenet(224),",
                           "imagenet(224)x",
                           "imagenet(-1)",
                           "imagenet(99999999999999999999)",
                           "imagenet(224, mean=[)",
                           "imagenet(224, mean=[1,2,3)",
                           "imagenet(224, mean=])",
                           "imagenet(224, mean=[1,2,3,4])",
                           "imagenet(224, mean=[,,])",
                           "imagenet(224, std=-1)",
                           "imagenet(224, =)",
                           "imagenet(224, mean=)",
                           "imagenet(224,)",
                           "imagenet(224, mean==1)",
                           "imagenet(224, std=inf)",
                           "letterbox(8, fill=256)",
                           "letterbox(8), letterbox(8)",
                           "resize(16385, 1)",
                           "resize(8), center_crop(9)",
                           "resize(8, 8), center_crop(4, 9)",
                           "to_layout()",
                           "normalize([[1]])"}) {
    EXPECT_THROW(parse_preprocess(text), InvalidArgument) << text;
  }
}

TEST(Preprocess, StepsAreOneResampling) {
  const Preprocess p = parse_preprocess("imagenet(32)");
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>{1, 1},
                                      {50, 40},
                                      {40, 50},
                                      {1, 300},
                                      {300, 2},
                                      {36, 36},
                                      {333, 500}}) {
    const auto pixels = pixels_of(width, height, 3);
    const View view{.box = centre_crop(width, height, 36, 32, 32), .width = 32, .height = 32};
    for (const Isa isa : usable_isas()) {
      std::vector<float> expected(3 * 32 * 32);
      Target target = planar_target(expected.data(), DType::kFloat32, 32, 32);
      target.mean = p.mean;
      target.std = p.std;
      FuseScratch scratch;
      fuse(planes_of_rgb(pixels.data(), width, height, 3 * width), view, std::nullopt, target,
           scratch, isa);
      EXPECT_EQ(made(p, pixels, width, height, false, Channels::kFirst, isa), expected)
          << width << "x" << height << " " << isa_name(isa);
    }
  }
}

TEST(Preprocess, AStretchedMiddleIsThatOfTheResizedPicture) {
  const Preprocess p = parse_preprocess("resize(20, 40), center_crop(10, 20)");
  const Placed placed = place(p, 80, 20, 1);
  EXPECT_EQ(placed.view.box.x0, 20);
  EXPECT_EQ(placed.view.box.x1, 60);
  EXPECT_EQ(placed.view.box.y0, 5);
  EXPECT_EQ(placed.view.box.y1, 15);
  EXPECT_EQ(placed.view.width, 20);
  EXPECT_EQ(placed.view.height, 10);
}

TEST(Preprocess, ALetterboxFillsWhatThePictureLeaves) {
  const Preprocess p = parse_preprocess("letterbox(16, 24, fill=51), normalize(mean=0.2, std=2)");
  for (const Isa isa : usable_isas()) {
    const std::vector<uint8_t> white(3 * 40 * 40, 255);
    const auto first = made(p, white, 40, 40, false, Channels::kFirst, isa);
    const auto last = made(p, white, 40, 40, false, Channels::kLast, isa);
    for (int64_t y = 0; y < 16; ++y) {
      for (int64_t x = 0; x < 24; ++x) {
        const bool inside = x >= 4 && x < 20;  // 16 x 16 in the middle
        for (int64_t c = 0; c < 3; ++c) {
          const float v = first[static_cast<size_t>((c * 16 + y) * 24 + x)];
          EXPECT_NEAR(v, inside ? 0.4f : 0.f, 1e-6f) << x << " " << y;
          EXPECT_EQ(v, last[static_cast<size_t>((y * 24 + x) * 3 + c)]);
        }
      }
    }
  }
}

TEST(Preprocess, GreyPixelsAreThreeEqualChannels) {
  const Preprocess p = parse_preprocess("imagenet(16, mean=0, std=1)");
  const auto grey = pixels_of(50, 30, 1);
  const auto out = made(p, grey, 50, 30, true, Channels::kFirst, usable_isa());
  for (size_t i = 0; i < 16 * 16; ++i) {
    EXPECT_EQ(out[i], out[i + 256]);
    EXPECT_EQ(out[i], out[i + 512]);
  }
}

// EXIF orientation 6: the stored picture is turned to the right before it is looked at.
TEST(Preprocess, OrientationComesFirst) {
  const Preprocess p = parse_preprocess("letterbox(10, 20)");
  const Placed placed = place(p, 10, 20, 6);
  EXPECT_EQ(placed.view.width, 20);
  EXPECT_EQ(placed.view.height, 10);
  EXPECT_EQ(placed.left, 0);
}

}  // namespace
}  // namespace stretto::media
