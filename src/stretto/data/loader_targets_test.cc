// Boxes and label maps that follow their pictures through the loader.
#include <algorithm>
#include <array>
#include <cmath>

#include "stretto/data/label_map.h"
#include "stretto/data/loader_testing.h"
#include "stretto/data/pack.h"
#include "stretto/data/sample_work.h"
#include "stretto/data/targets_testing.h"
#include "stretto/media/decode.h"

namespace stretto::data {
namespace {

using media::operators::parse_operators;

TEST(LoaderTargets, BitsDependOnNoThreadRankCacheSourceOrResume) {
  const CocoPictures coco(13);
  TestFolder out;
  pack(coco.open(), out.path("pack"));
  const Dataset packed = open_dataset(out.path("pack"));
  for (const Fit fit : {Fit::kCrop, Fit::kLetterbox}) {
    LoaderOptions o = target_options("rand_augment(2, 9), erase", fit);
    o.threads = 1;
    o.iou_crop = fit == Fit::kLetterbox;
    o.last = Last::kPad;
    Loader one(coco.open(), o);
    const auto want = targets_epoch(one);
    ASSERT_EQ(want.size(), 4);
    EXPECT_EQ(want[3].ids[3], -1);
    EXPECT_EQ(std::count(want[3].masks.end() - 48 * 40, want[3].masks.end(), kIgnore), 48 * 40);
    size_t boxes = 0;
    for (const GivenTargets& batch : want) boxes += batch.labels.size();
    EXPECT_GT(boxes, 13);
    for (const CacheKind cache : {CacheKind::kPage, CacheKind::kUser, CacheKind::kDecoded}) {
      LoaderOptions other = o;
      other.cache = cache;
      other.threads = 3;
      Loader loader(packed, other);
      EXPECT_EQ(targets_epoch(loader), want);
      loader.load({.seed = o.order.seed, .epoch = 0, .place = 8});
      EXPECT_EQ(targets_epoch(loader), std::vector<GivenTargets>(want.begin() + 2, want.end()));
    }
    for (int64_t rank = 0; rank < 2; ++rank) {
      LoaderOptions half = o;
      half.phases[0].shape.batch = 2;
      half.rank = rank;
      half.world = 2;
      Loader loader(packed, half);
      const auto got = targets_epoch(loader);
      ASSERT_EQ(got.size(), 4);
      for (size_t b = 0; b < 4; ++b) {
        const auto& all = want[b];
        const auto begin = static_cast<size_t>(all.starts[static_cast<size_t>(2 * rank)]);
        EXPECT_TRUE(std::equal(got[b].boxes.begin(), got[b].boxes.end(),
                               all.boxes.begin() + static_cast<int64_t>(4 * begin)));
        EXPECT_TRUE(std::equal(got[b].masks.begin(), got[b].masks.end(),
                               all.masks.begin() + 2 * rank * 48 * 40));
        EXPECT_TRUE(std::equal(got[b].ids.begin(), got[b].ids.end(), all.ids.begin() + 2 * rank));
      }
    }
  }
}

// The pixels of a thing in the label map are those whose middle is in its box, and moves take the
// nearest pixel.
TEST(LoaderTargets, BoxesAndMapsAgree) {
  const CocoPictures coco(11);
  int64_t compared = 0;
  for (const bool moves : {false, true}) {
    const double most = moves ? 1.01 : 0.501;
    for (const int k : {0, 1, 2, 3}) {
      LoaderOptions o = target_options(moves ? "translate_x(0.2), translate_y(0.2)" : "",
                                       k / 2 == 0 ? Fit::kCrop : Fit::kLetterbox);
      o.train = k % 2 == 0;
      o.min_visible = 0;
      Loader loader(coco.open(), o);
      for (const GivenTargets& batch : targets_epoch(loader)) {
        for (size_t i = 0; i < 4; ++i) {
          const uint8_t* map = batch.masks.data() + i * 48 * 40;
          for (auto at = static_cast<size_t>(batch.starts[i]);
               at < static_cast<size_t>(batch.starts[i + 1]); ++at) {
            if (batch.labels[at] != 0) continue;  // others are partly below it
            const float* box = &batch.boxes[4 * at];
            EXPECT_EQ(batch.areas[at], (box[2] - box[0]) * (box[3] - box[1]));
            if (std::min(box[2] - box[0], box[3] - box[1]) < 2.1f) continue;
            int64_t x0 = 40, y0 = 48, x1 = 0, y1 = 0;
            for (int64_t p = 0; p < 48 * 40; ++p) {
              if (map[p] != 1) continue;
              x0 = std::min(x0, p % 40);
              x1 = std::max(x1, p % 40 + 1);
              y0 = std::min(y0, p / 40);
              y1 = std::max(y1, p / 40 + 1);
            }
            ++compared;
            EXPECT_NEAR(static_cast<double>(box[0]), static_cast<double>(x0), most);
            EXPECT_NEAR(static_cast<double>(box[1]), static_cast<double>(y0), most);
            EXPECT_NEAR(static_cast<double>(box[2]), static_cast<double>(x1), most);
            EXPECT_NEAR(static_cast<double>(box[3]), static_cast<double>(y1), most);
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 30);
}

// As torchvision's RandomIoUCrop: a box whose middle is not shown is no target.
TEST(LoaderTargets, PartsByBoxesKeepWhatTheyShowTheMiddleOf) {
  const CocoPictures coco(11);
  LoaderOptions o = target_options("", Fit::kCrop);
  o.iou_crop = true;
  o.min_visible = o.min_box_area = 0;
  o.order.kind = OrderKind::kSequential;
  o.phases[0].shape.batch = 1;
  Loader loader(coco.open(), o);
  const Dataset dataset = coco.open();
  int64_t all = 0, kept = 0;
  for (int64_t i = 0; i < 11; ++i) {
    const auto batch = loader.next();
    const media::PictureInfo info = media::read_info(coco.pictures().file(i));
    const auto boxes = dataset.annotations(i);
    const media::Box part =
        frame_of(o, o.phases[0].shape,
                 {.seed = o.order.seed, .number = static_cast<uint64_t>(i), .epoch = 0}, info.width,
                 info.height, info.orientation, boxes)
            .view.box;
    const auto want = std::count_if(boxes.begin(), boxes.end(), [&](const Annotation& a) {
      const double x = static_cast<double>(a.x0 + a.x1) / 2;
      const double y = static_cast<double>(a.y0 + a.y1) / 2;
      return part.x0 < x && x < part.x1 && part.y0 < y && y < part.y1;
    });
    EXPECT_EQ(batch->box_starts[1], want) << i;
    all += std::ssize(boxes);
    kept += want;
  }
  EXPECT_LT(kept, all);
}

TEST(LoaderTargets, LetterboxesShowTheWholePicture) {
  const CocoPictures coco(6);
  LoaderOptions o = target_options("", Fit::kLetterbox);
  o.train = false;
  o.masks = false;
  o.phases[0].shape.batch = 1;
  o.order.kind = OrderKind::kSequential;
  Loader loader(coco.open(), o);
  for (int64_t i = 0; i < 6; ++i) {
    const auto batch = loader.next();
    const media::PictureInfo info = media::read_info(coco.pictures().file(i));
    const media::Size seen = media::oriented_size(info.width, info.height, info.orientation);
    const double scale =
        std::min(40.0 / static_cast<double>(seen.width), 48.0 / static_cast<double>(seen.height));
    const auto w = static_cast<int64_t>(std::nearbyint(scale * static_cast<double>(seen.width)));
    const auto h = static_cast<int64_t>(std::nearbyint(scale * static_cast<double>(seen.height)));
    const int64_t left = (40 - w) / 2, top = (48 - h) / 2;
    EXPECT_TRUE(left == 0 || top == 0);
    const auto* pixels = static_cast<const float*>(batch->data);
    for (int64_t y = 0; y < 48; ++y) {
      for (int64_t x = 0; x < 40; ++x) {
        const bool inside = x >= left && x < left + w && y >= top && y < top + h;
        if (inside) continue;
        ASSERT_EQ(pixels[y * 40 + x], 0.0f) << x << " " << y;
      }
    }
    ASSERT_EQ(batch->box_starts[1], 3);
    EXPECT_EQ(batch->image_ids[0], 100 + i);
    EXPECT_NEAR(
        static_cast<double>(batch->boxes[0]),
        static_cast<double>(left) + 3.0 * static_cast<double>(w) / static_cast<double>(seen.width),
        1e-4);
    EXPECT_NEAR(
        static_cast<double>(batch->boxes[1]),
        static_cast<double>(top) + 5.0 * static_cast<double>(h) / static_cast<double>(seen.height),
        1e-4);
  }
}

// Whatever operators are drawn, and as bytes too: they do not see what is beside the picture.
TEST(LoaderTargets, OperatorsLeaveTheLetterboxAlone) {
  const CocoPictures coco(12);
  for (const char* transforms :
       {"brightness", "brightness, contrast", "invert, equalize, translate_x(0.2)",
        "rand_augment(2, 9), erase", "rotate(30), solarize"}) {
    LoaderOptions o = target_options(transforms, Fit::kLetterbox);
    o.phases[0].shape = {.height = 20, .width = 90, .batch = 1, .crop = {.min_area = 1}};
    o.order.kind = OrderKind::kSequential;
    o.mean = {0.5f, 0.25f, 0.75f};
    LoaderOptions bytes = o;
    bytes.dtype = DType::kUInt8;
    Loader floats(coco.open(), o), integers(coco.open(), bytes);
    for (int64_t i = 0; i < 12; ++i) {
      SCOPED_TRACE(fmt::format("{} {}", transforms, i));
      const auto batch = floats.next(), same = integers.next();
      const media::PictureInfo info = media::read_info(coco.pictures().file(i));
      const media::Size seen = media::oriented_size(info.width, info.height, info.orientation);
      const auto w = static_cast<int64_t>(
          std::nearbyint(static_cast<double>(20 * seen.width) / static_cast<double>(seen.height)));
      const int64_t left = (90 - w) / 2;
      ASSERT_GT(left, 10);
      for (int64_t y = 0; y < 20; ++y) {
        for (int64_t x = 0; x < 90; ++x) {
          if (x >= left && x < left + w) continue;
          const int64_t at = y * 90 + x;
          for (int64_t c = 0; c < 3; ++c) {
            ASSERT_EQ(static_cast<const float*>(batch->data)[c * 20 * 90 + at], 0.0f);
            ASSERT_EQ(static_cast<const uint8_t*>(same->data)[c * 20 * 90 + at],
                      (std::array{128, 64, 191})[static_cast<size_t>(c)]);
          }
          ASSERT_EQ(static_cast<const uint8_t*>(batch->masks)[at], kIgnore);
        }
      }
      for (int64_t k = 0; k < batch->box_starts[1]; ++k) {
        EXPECT_GE(batch->boxes[4 * k], static_cast<float>(left));
        EXPECT_LE(batch->boxes[4 * k + 2], static_cast<float>(left + w));
      }
    }
  }
}

// Label maps as PNG files beside pictures.
class MaskedFolder {
 public:
  explicit MaskedFolder(int64_t count) : pictures_(count) {
    for (int64_t i = 0; i < count; ++i) {
      folder_.write(fmt::format("images/sub/{}", TestPictures::name(i)),
                    text_of(pictures_.file(i)));
      const media::PictureInfo info = media::read_info(pictures_.file(i));
      const media::Size seen = media::oriented_size(info.width, info.height, info.orientation);
      folder_.write(fmt::format("masks/sub/p{}.png", i), grey_png(seen, i));
    }
  }
  std::string path(std::string_view below = {}) const { return folder_.path(below); }
  Dataset open() const { return open_dataset(folder_.path()); }
  const TestFolder& folder() const { return folder_; }

  // Stored without compression: value (x / 8 + y / 8 + i) % 5 at (x, y).
  static std::string grey_png(media::Size size, int64_t i) {
    std::string raw;
    for (int64_t y = 0; y < size.height; ++y) {
      raw += '\0';
      for (int64_t x = 0; x < size.width; ++x) {
        raw += static_cast<char>((x / 8 + y / 8 + i) % 5);
      }
    }
    uint32_t a = 1, b = 0;
    for (const char c : raw) {
      a = (a + static_cast<uint8_t>(c)) % 65521;
      b = (b + a) % 65521;
    }
    const auto big = [](uint32_t v) {
      return std::string{static_cast<char>(v >> 24), static_cast<char>(v >> 16),
                         static_cast<char>(v >> 8), static_cast<char>(v)};
    };
    const auto length = static_cast<uint16_t>(raw.size());
    std::string zlib{"\x78\x01\x01", 3};
    zlib += {static_cast<char>(length), static_cast<char>(length >> 8), static_cast<char>(~length),
             static_cast<char>(~length >> 8)};
    zlib += raw + big(b << 16 | a);
    const auto chunk = [&](std::string_view kind, const std::string& content) {
      std::string body = std::string(kind) + content;
      uint32_t crc = 0xFFFFFFFF;
      for (const char c : body) {
        crc ^= static_cast<uint8_t>(c);
        for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
      }
      return big(static_cast<uint32_t>(content.size())) + body + big(~crc);
    };
    const std::string header = big(static_cast<uint32_t>(size.width)) +
                               big(static_cast<uint32_t>(size.height)) +
                               std::string{"\x08\0\0\0\0", 5};
    return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", zlib) + chunk("IEND", "");
  }

 private:
  TestPictures pictures_;
  TestFolder folder_;
};

LoaderOptions mask_options() {
  LoaderOptions o = target_options("rand_augment", Fit::kCrop);
  o.boxes = false;
  return o;
}

TEST(LoaderTargets, MapsBesidePicturesArePackedToo) {
  const MaskedFolder source(9);
  EXPECT_EQ(source.open().kind(), "segmentation");
  EXPECT_EQ(source.open().mask_path(0), source.path("masks/sub/p0.png"));
  TestFolder out;
  pack(source.open(), out.path("pack"));
  EXPECT_TRUE(verify_pack(out.path("pack")).damaged.empty());
  const Dataset packed = open_dataset(out.path("pack"));
  EXPECT_TRUE(packed.has_details());
  Loader files(source.open(), mask_options()), shards(packed, mask_options());
  LoaderOptions wide = mask_options();
  wide.mask_dtype = DType::kInt64;
  Loader wider(packed, wide);
  for (const GivenTargets& want : targets_epoch(files)) {
    EXPECT_EQ(targets_of(*shards.next()), want);
    const auto batch = wider.next();
    const auto* values = static_cast<const int64_t*>(batch->masks);
    EXPECT_TRUE(std::equal(want.masks.begin(), want.masks.end(), values));
    for (const uint8_t v : want.masks) ASSERT_TRUE(v < 5 || v == kIgnore);
  }
  EXPECT_EQ(unpack(out.path("pack"), out.path("files")).files, 18);
  EXPECT_EQ(read_file(out.path("files/masks/sub/p3.png")),
            read_file(source.path("masks/sub/p3.png")));
}

// Without a crop, pixels are those of the file.
TEST(LoaderTargets, MapsAreThoseOfTheirFiles) {
  const MaskedFolder source(5);
  LoaderOptions o = mask_options();
  o.transforms.clear();
  o.order.kind = OrderKind::kSequential;
  o.fit = Fit::kLetterbox;
  o.phases[0].shape = {.height = 100, .width = 100, .batch = 1, .crop = {.min_area = 1}};
  o.flip = 0;
  Loader loader(source.open(), o);
  const std::string file = read_file(source.path("images/sub/p0.jpg"));
  const media::PictureInfo info = media::read_info(std::as_bytes(std::span(file)));
  const media::Size seen = media::oriented_size(info.width, info.height, info.orientation);
  const auto batch = loader.next();
  const auto* map = static_cast<const uint8_t*>(batch->masks);
  const double scale = 100.0 / static_cast<double>(std::max(seen.width, seen.height));
  const auto w = static_cast<int64_t>(std::nearbyint(scale * static_cast<double>(seen.width)));
  const auto h = static_cast<int64_t>(std::nearbyint(scale * static_cast<double>(seen.height)));
  for (int64_t y = 0; y < 100; ++y) {
    for (int64_t x = 0; x < 100; ++x) {
      const int64_t ix = x - (100 - w) / 2, iy = y - (100 - h) / 2;
      int64_t want = kIgnore;
      if (ix >= 0 && ix < w && iy >= 0 && iy < h) {
        const auto sx =
            static_cast<int64_t>((static_cast<double>(ix) + 0.5) * static_cast<double>(seen.width) /
                                 static_cast<double>(w));
        const auto sy =
            static_cast<int64_t>((static_cast<double>(iy) + 0.5) *
                                 static_cast<double>(seen.height) / static_cast<double>(h));
        want = (sx / 8 + sy / 8) % 5;
      }
      ASSERT_EQ(map[y * 100 + x], want) << x << " " << y;
    }
  }
}

// In the second epoch nothing is read: the files are gone.
TEST(LoaderTargets, MapsAreCachedWithTheirPictures) {
  const MaskedFolder source(8);
  TestFolder out;
  pack(source.open(), out.path("pack"));
  LoaderOptions o = mask_options();
  Loader want(source.open(), o);
  const auto first = targets_epoch(want), second = targets_epoch(want);
  o.cache = CacheKind::kUser;
  o.ahead = 1;
  for (const bool packed : {false, true}) {
    Loader loader(packed ? open_dataset(out.path("pack")) : source.open(), o);
    EXPECT_EQ(targets_epoch(loader), first);
    EXPECT_EQ(loader.stats().cached_samples, 8);
    if (packed) {
      std::filesystem::remove_all(out.path("pack"));
    } else {
      std::filesystem::rename(source.path("masks"), source.path("away"));
    }
    EXPECT_EQ(targets_epoch(loader), second);
    if (!packed) std::filesystem::rename(source.path("away"), source.path("masks"));
  }
}

TEST(LoaderTargets, ErrorsNameTheMap) {
  const MaskedFolder source(4);
  LoaderOptions o = mask_options();
  o.order.kind = OrderKind::kSequential;
  source.folder().write("masks/sub/p1.png", MaskedFolder::grey_png({5, 4}, 0));
  const auto next_error = [&] {
    Loader loader(source.open(), o);
    return error_of<FormatError>([&] { loader.next(); });
  };
  EXPECT_TRUE(says(next_error(), source.path("images/sub/p1.jpg")));
  EXPECT_TRUE(says(next_error(), "it has 5x4 pixels, the picture as it is to be seen has"));
  {
    Loader loader(source.open(), o);
    std::filesystem::remove(source.path("masks/sub/p1.png"));
  }
  EXPECT_TRUE(
      says(error_of<FormatError>([&] { source.open(); }),
           "images/sub/p1.jpg: expected its label map at " + source.path("masks/sub/p1.png")));
  source.folder().write("masks/sub/p1.png", tiny_png());
  EXPECT_TRUE(says(
      [&] {
        Loader loader(source.open(), o);
        return error_of<Unsupported>([&] { loader.next(); });
      }(),
      "expected a grey or palette file"));
}

TEST(LoaderTargets, WhatADatasetLacksIsNamed) {
  const TestPictures pictures(4);
  LoaderOptions o = small_options();
  const auto error = [&] {
    return error_of<InvalidArgument>([&] { Loader loader(pictures.as_folder(), o); });
  };
  o.boxes = true;
  EXPECT_TRUE(says(error(), "has no boxes"));
  o.boxes = false;
  o.masks = true;
  EXPECT_TRUE(says(error(), "has no label maps"));
  o.masks = false;
  o.iou_crop = true;
  EXPECT_TRUE(says(error(), "has no boxes"));
  o.iou_crop = false;
  o.min_visible = 1.5;
  EXPECT_TRUE(says(error(), "min_visible is 1.5"));
  o.min_visible = 0;
  o.mask_dtype = DType::kInt8;
  EXPECT_TRUE(says(error(), "mask_dtype is int8"));
}

}  // namespace
}  // namespace stretto::data
