#include "stretto/data/sample_work.h"

#include <algorithm>
#include <array>
#include <new>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/memory.h"
#include "stretto/data/direct_reads.h"
#include "stretto/data/restarts.h"
#include "stretto/media/decode.h"
#include "stretto/media/jpeg/splice.h"
#include "stretto/media/operators/normalise.h"

namespace stretto::data {
namespace {

int64_t cache_budget(const LoaderOptions& o) {
  return o.cache_bytes > 0 ? o.cache_bytes : total_memory_bytes() / 4;
}

// The target without its first rows and columns.
media::Target moved_target(media::Target target, int64_t left, int64_t top) {
  const int64_t elements = top * target.row_stride + left * target.pixel_stride;
  target.data = static_cast<std::byte*>(target.data) +
                elements * static_cast<int64_t>(dtype_bytes(target.dtype));
  return target;
}

// Around the picture in a result of `size`: whatever was done to the picture, its padding is what
// normalises to 0.
void pad(const Framed& framed, media::Size size, const media::Target& target) {
  const int64_t right = framed.left + framed.view.width, bottom = framed.top + framed.view.height;
  for (const media::Region& r : {media::Region{0, 0, size.width, framed.top},
                                 {0, bottom, size.width, size.height},
                                 {0, framed.top, framed.left, bottom},
                                 {right, framed.top, size.width, bottom}}) {
    if (r.width() > 0 && r.height() > 0) {
      media::operators::erase(target, size.width, size.height, {&r, 1});
    }
  }
}

struct ReleaseLarge {
  std::array<media::Buffer*, 5> buffers;
  ~ReleaseLarge() {
    for (media::Buffer* const buffer : buffers) buffer->release_above(kMostKept);
  }
};

}  // namespace

Source::Source(Dataset d, const LoaderOptions& o)
    : dataset(std::move(d)),
      reader(dataset, o.cache == CacheKind::kUser && o.io_uring ? DirectReads::make() : nullptr) {
  if (o.cache == CacheKind::kUser) {
    encoded = std::make_unique<EncodedCache>(dataset.size(), cache_budget(o), o.boxes || o.masks);
  }
  if (o.cache == CacheKind::kDecoded) {
    decoded = std::make_unique<DecodedCache>(dataset.size(), cache_budget(o), o.masks);
  }
}

Reader::Soon Source::lacks(int64_t sample, bool details) const {
  const bool has = (encoded != nullptr && encoded->has(sample)) ||
                   (decoded != nullptr && decoded->find(sample) != nullptr);
  return {.picture = !has,
          .details = details && !(encoded != nullptr && encoded->has_details(sample)) &&
                     !(decoded != nullptr && !decoded->find_map(sample).empty()),
          .once = encoded != nullptr && !encoded->store().full()};
}

SampleWork::SampleWork(Source& source, const LoaderOptions& options, Counters& counters)
    : source_(source), options_(options), counters_(counters) {}

void SampleWork::run(int64_t sample, const Shape& shape, const Draws& draws, const SampleOut& out) {
  const ReleaseLarge release{{&bytes_, &planes_memory_, &part_, &scratch_.planes, &details_}};
  try {
    make(sample, shape, draws, out.pixels);
    if (out.mask == nullptr && out.boxes == nullptr) return;
    std::span<const uint8_t> map;
    if (out.mask != nullptr && source_.decoded != nullptr) map = source_.decoded->find_map(sample);
    const bool id_alone = (out.mask == nullptr || !map.empty()) && out.masks_of_boxes == nullptr;
    media::Bytes details;
    if (out.boxes != nullptr || !id_alone) details = read_details(sample, id_alone);
    named(sample, [&] {
      place_targets(
          sample,
          id_alone ? Details{.image_id = decode_image_id(details)} : decode_details(details), map,
          out);
    });
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(fmt::format("{}: memory ran out while it was read or decoded",
                                  source_.reader.label(sample)));
  }
}

media::Bytes SampleWork::read_details(int64_t sample, bool id_alone) {
  media::Bytes details;
  EncodedCache* const cache = source_.encoded.get();
  if (cache != nullptr && cache->find_details(sample, details)) return details;
  const double begin = now_s();
  details = source_.reader.read_details(sample, details_, id_alone);
  Counters::add(counters_.read_seconds, now_s() - begin);
  // Those of the table are in memory.
  const bool was_read = !details.empty() && source_.dataset.details(sample).empty();
  if (cache != nullptr && was_read) cache->put_details(sample, details);
  return details;
}

void SampleWork::make(int64_t sample, const Shape& shape, const Draws& draws, void* out) {
  if (source_.decoded != nullptr) {
    if (const DecodedPicture* p = source_.decoded->find(sample)) {
      Counters::add(counters_.cache_hits, int64_t{1});
      const media::Planes& planes = p->planes;
      fuse(planes, frame(sample, shape, draws, planes.width, planes.height, p->orientation), shape,
           draws, out);
      return;
    }
  }
  Encoded encoded;
  if (source_.encoded != nullptr && source_.encoded->find(sample, encoded)) {
    Counters::add(counters_.cache_hits, int64_t{1});
  } else {
    const double begin = now_s();
    encoded = source_.reader.read(sample, bytes_);
    Counters::add(counters_.read_seconds, now_s() - begin);
    Counters::add(counters_.read_bytes,
                  static_cast<int64_t>(encoded.restarts.size() + encoded.file.size()));
    if (source_.encoded != nullptr) source_.encoded->put(sample, encoded);
  }
  named(sample, [&] { decode_and_fuse(sample, encoded, shape, draws, out); });
}

template <typename F>
void SampleWork::named(int64_t sample, const F& work) const {
  const auto label = [&] { return source_.reader.label(sample); };
  try {
    work();
  } catch (const FormatError& e) {
    throw FormatError(label(), -1, e.what(), e.code());
  } catch (const InvalidArgument& e) {  // options were checked before: it is the file
    throw FormatError(label(), -1, e.what());
  } catch (const Unsupported& e) {
    throw_unsupported("{}: {}", label(), e.what());
  }
}

void SampleWork::decode_and_fuse(int64_t sample, const Encoded& encoded, const Shape& shape,
                                 const Draws& draws, void* out) {
  const double begin = now_s();
  const media::PictureInfo info = media::read_info(encoded.file);
  media::check_size(info.width, info.height, {.max_pixels = options_.max_pixels});
  const Framed framed = frame(sample, shape, draws, info.width, info.height, info.orientation);
  const media::Planes& planes = decode(sample, encoded, framed.view, info);
  Counters::add(counters_.decode_seconds, now_s() - begin);
  fuse(planes, framed, shape, draws, out);
}

const media::Planes& SampleWork::decode(int64_t sample, const Encoded& encoded,
                                        const media::View& view, const media::PictureInfo& info) {
  const media::DecodeOptions options{.max_pixels = options_.max_pixels};
  // Before the whole picture is decoded, which needs no table: a wrong one is an error in any case.
  media::jpeg::RestartTable table;
  if (!encoded.restarts.empty()) table = decode_restarts(encoded.restarts, encoded.file);
  if (source_.decoded != nullptr && !source_.decoded->full()) {
    const media::Region whole{.x0 = 0, .y0 = 0, .x1 = info.width, .y1 = info.height};
    try {
      planes_ = media::decode_planes(encoded.file, whole, options, planes_memory_);
      source_.decoded->put(sample, {.planes = planes_, .orientation = info.orientation});
      return planes_;
    } catch (const FormatError&) {
      // Damaged, maybe where this view does not look. Whether it is an error must not depend on
      // what else is in the cache.
    }
  }
  const media::Region region = media::needed_region(view, info.width, info.height);
  if (encoded.restarts.empty()) {
    planes_ = media::decode_planes(encoded.file, region, options, planes_memory_);
  } else {
    planes_ =
        media::jpeg::decode_spliced(encoded.file, table, region, options, planes_memory_, part_);
  }
  return planes_;
}

Framed SampleWork::frame(int64_t sample, const Shape& shape, const Draws& draws, int64_t width,
                         int64_t height, int orientation) const {
  std::span<const Annotation> boxes;
  if (options_.iou_crop) boxes = source_.dataset.annotations(sample);
  return frame_of(options_, shape, draws, width, height, orientation, boxes);
}

void SampleWork::fuse(const media::Planes& planes, const Framed& framed, const Shape& shape,
                      const Draws& draws, void* out) {
  const double begin = now_s();
  const media::Size size{shape.width, shape.height};
  media::Target target = options_.layout == PixelLayout::kNchw
                             ? media::planar_target(out, options_.dtype, size.width, size.height)
                             : media::interleaved_target(out, options_.dtype, size.width);
  target.mean = options_.mean;
  target.std = options_.std;
  const media::Target inner = moved_target(target, framed.left, framed.top);
  media::operators::Steps steps;
  if (options_.transforms.empty()) {
    media::fuse(planes, framed.view, std::nullopt, inner, scratch_, isa_);
  } else {
    steps = transform(planes, framed.view, draws, inner);
  }
  pad(framed, size, target);
  if (options_.boxes || options_.masks) {
    media::View seen = framed.view;
    const media::Size full = media::oriented_size(planes.width, planes.height, seen.orientation);
    seen.orientation = 1;
    geometry_ = media::operators::geometry_of(seen, full.width, full.height, steps,
                                              {seen.width, seen.height});
    inside_ = {framed.left, framed.top, framed.left + seen.width, framed.top + seen.height};
    frame_ = size;
  }
  Counters::add(counters_.transform_seconds, now_s() - begin);
}

media::operators::Steps SampleWork::transform(const media::Planes& planes, const media::View& view,
                                              const Draws& draws, const media::Target& target) {
  namespace operators = media::operators;
  const media::Size size{view.width, view.height};
  operators::Steps steps = operators::draw_steps(
      options_.transforms, {.seed = draws.seed, .epoch = draws.epoch, .sample = draws.number},
      size);
  const std::vector<media::Region> erased = operators::erased(steps);
  // Pillow clamps after each step, one matrix does after all: they are the same for one step. Its
  // contrast takes the mean of the resized picture, which is not there yet.
  const size_t changes = steps.size() - erased.size();
  std::optional<media::ColourMatrix> colour;
  if (changes == 1 && std::none_of(steps.begin(), steps.end(), [](const operators::Step& step) {
        return step.op->name == "contrast";
      })) {
    // The same pixels whether the planes are of the whole picture or of what is needed.
    const media::Region shown = media::needed_region(view, planes.width, planes.height);
    colour = operators::colour_matrix_of(steps, planes, shown);
  }
  if (changes == 0 || colour) {
    media::fuse(planes, view, colour, target, scratch_, isa_);
    operators::erase(target, size.width, size.height, erased);
    return steps;
  }
  operators::Pixels pixels{.width = size.width, .height = size.height};
  pixels.rgb = picture_.get(static_cast<size_t>(pixels.bytes()));
  media::Target bytes = media::interleaved_target(pixels.rgb, DType::kUInt8, size.width);
  bytes.mean = options_.mean;
  media::fuse(planes, view, std::nullopt, bytes, scratch_, isa_);
  operators::apply_steps(steps, pixels, work_);
  operators::normalise(pixels, target, erased, work_, isa_);
  return steps;
}

}  // namespace stretto::data
