#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/media/decode.h"
#include "stretto/media/fuse.h"
#include "stretto/media/jpeg/decode.h"
#include "stretto/media/jpeg/splice.h"
#include "stretto/media/jpeg/transcode.h"
#include "stretto/media/media_fuzz.h"

namespace stretto::media {
namespace {

// Small enough for a thousand pictures a second.
constexpr DecodeOptions kStrict{.max_pixels = 1 << 14};
constexpr DecodeOptions kLenient{.max_pixels = 1 << 14, .allow_damaged = true};

// Whether f ran: files may be refused, for these reasons and no other.
template <typename F>
bool accepted(F&& f) {
  try {
    f();
    return true;
  } catch (const FormatError&) {
  } catch (const Unsupported&) {
  }
  return false;
}

// A view that depends on the file and nothing else.
View view_of(Bytes file, const PictureInfo& info) {
  uint32_t state = static_cast<uint32_t>(file.size());
  for (const std::byte b : file.last(std::min<size_t>(file.size(), 16))) {
    state = state * 31 + std::to_integer<uint32_t>(b);
  }
  const auto draw = [&](uint32_t count) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % count;
  };
  const Size size = oriented_size(info.width, info.height, info.orientation);
  const auto w = static_cast<double>(size.width), h = static_cast<double>(size.height);
  View view{.width = 1 + draw(20),
            .height = 1 + draw(20),
            .filter = static_cast<Filter>(draw(3)),
            .edge = static_cast<Edge>(draw(2)),
            .flip = draw(2) == 0,
            .orientation = info.orientation};
  view.box = {.x0 = w * draw(8) / 10, .y0 = h * draw(8) / 10};
  view.box.x1 = view.box.x0 + (w - view.box.x0) * (1 + draw(10)) / 10;
  view.box.y1 = view.box.y0 + (h - view.box.y0) * (1 + draw(10)) / 10;
  return view;
}

std::vector<float> resized(const Planes& planes, const View& view) {
  std::vector<float> out(static_cast<size_t>(3 * view.width * view.height));
  FuseScratch scratch;
  fuse(planes, view, std::nullopt,
       planar_target(out.data(), DType::kFloat32, view.width, view.height), scratch, usable_isa());
  return out;
}

// The rest of a JPEG file: `expected` is what its region gives.
void check_jpeg(Bytes file, const View& view, const Region& region, bool decoded,
                const std::vector<float>& expected) {
  Buffer buffer, scratch;
  for (const DecodeOptions& options : {kLenient, kStrict}) {
    std::vector<float> one, other;
    const bool ours =
        accepted([&] { one = resized(jpeg::decode_planes(file, region, options, buffer), view); });
    const bool theirs = accepted([&] {
      other = resized(jpeg::decode_planes_by_libjpeg(file, region, options, buffer), view);
    });
    STRETTO_CHECK(ours == theirs && one == other, "libjpeg gives other pixels");
  }
  accepted([&] {
    const jpeg::RestartTableOrReason found = jpeg::restart_table(file);
    if (!found) return;
    for (const DecodeOptions& options : {kLenient, kStrict}) {
      const Planes planes =
          jpeg::decode_spliced(file, found.table, region, options, buffer, scratch);
      const std::vector<float> got = resized(planes, view);
      STRETTO_CHECK(!decoded || options.allow_damaged || got == expected,
                    "a spliced file gives other pixels");
    }
  });
  accepted([&] {
    const std::vector<std::byte> written = jpeg::transcode(file, kStrict);
    const RgbPicture before = jpeg::decode_rgb(file, kStrict);
    STRETTO_CHECK(jpeg::decode_rgb(written, kStrict).rgb == before.rgb,
                  "a rewritten file gives other pixels");
  });
  accepted([&] { jpeg::transcode(file, kLenient); });
}

}  // namespace

bool check_any_picture(Bytes file) {
  PictureInfo info;
  if (!accepted([&] { info = read_info(file); })) return false;
  accepted([&] { decode_rgb(file, kLenient); });
  bool decoded = accepted([&] { decode_rgb(file, kStrict); });
  if (info.width * info.height > kStrict.max_pixels) return decoded;
  const View view = view_of(file, info);
  const Region region = needed_region(view, info.width, info.height);
  Buffer buffer;
  std::vector<float> pixels;
  accepted([&] { resized(decode_planes(file, region, kLenient, buffer), view); });
  decoded = accepted([&] { pixels = resized(decode_planes(file, region, kStrict, buffer), view); });
  if (info.format == Format::kJpeg) check_jpeg(file, view, region, decoded, pixels);
  return decoded;
}

}  // namespace stretto::media
