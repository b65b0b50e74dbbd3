// Pictures per second of one core, from a folder of JPEG files that STRETTO_MEDIA_PICTURES names:
// photographs, because the cost of Huffman decoding depends on what they show. Each file is also
// timed as transcode() writes it. Crops are those of RandomResizedCrop to 224x224.
//
// entropy_floor is what no use of libjpeg can go below that reads the whole file: Huffman decoding,
// nothing else.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/media/decode.h"
#include "stretto/media/fuse.h"
#include "stretto/media/jpeg/decode.h"
#include "stretto/media/jpeg/library.h"
#include "stretto/media/jpeg/splice.h"
#include "stretto/media/jpeg/transcode.h"

namespace stretto::media {
namespace {

constexpr int64_t kSize = 224;
// Draws of crops, in turns with the pictures: few enough for a run to have them all.
constexpr uint64_t kDraws = 40;

struct Photo {
  std::vector<std::byte> file, spliced;
  jpeg::RestartTable table;
  PictureInfo info;
};

const std::vector<Photo>& photos() {
  static const std::vector<Photo> all = [] {
    std::vector<Photo> photos;
    const char* folder = std::getenv("STRETTO_MEDIA_PICTURES");
    if (folder == nullptr) return photos;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string text = read_file(entry.path().string());
      const Bytes bytes = std::as_bytes(std::span(text));
      Photo p{.file = {bytes.begin(), bytes.end()}, .spliced = jpeg::transcode(bytes)};
      const auto table = jpeg::restart_table(p.spliced);
      if (!table) throw_invalid("{}: no table: {}", entry.path().string(), table.reason);
      p.table = table.table;
      p.info = jpeg::read_info(bytes);
      photos.push_back(std::move(p));
    }
    return photos;
  }();
  return all;
}

struct Worker {
  Buffer planes, part;
  FuseScratch fuse;
  std::vector<float> out = std::vector<float>(3 * kSize * kSize);
  Isa isa = usable_isa();
};

struct Sample {
  View view;
  Region region;
};

Sample draw(const Photo& photo, uint64_t number) {
  SampleRandom random(1, 0, number, Draw::kCrop);
  const Region crop = random_crop({}, photo.info.width, photo.info.height, random);
  Sample s;
  s.view = {.box = box_of(crop),
            .width = kSize,
            .height = kSize,
            .edge = Edge::kBox,
            .flip = random.flip(0.5)};
  s.region = needed_region(s.view, photo.info.width, photo.info.height);
  return s;
}

Planes plain(const Photo& p, const Sample& s, Worker& w) {
  return jpeg::decode_planes(p.file, s.region, {}, w.planes);
}
Planes spliced(const Photo& p, const Sample& s, Worker& w) {
  return jpeg::decode_spliced(p.spliced, p.table, s.region, {}, w.planes, w.part);
}

void run_fuse(const Planes& planes, const Sample& s, DType dtype, bool planar, Worker& w) {
  Target target = planar ? planar_target(w.out.data(), dtype, kSize, kSize)
                         : interleaved_target(w.out.data(), dtype, kSize);
  target.mean = {0.485f, 0.456f, 0.406f};
  target.std = {0.229f, 0.224f, 0.225f};
  fuse(planes, s.view, std::nullopt, target, w.fuse, w.isa);
}

// Both ways to the result have to agree before one is timed.
bool results_agree() {
  Worker a, b;
  for (const Photo& p : photos()) {
    const Sample s = draw(p, 3);
    run_fuse(plain(p, s, a), s, DType::kFloat32, true, a);
    run_fuse(spliced(p, s, b), s, DType::kFloat32, true, b);
    if (a.out != b.out) return false;
  }
  return true;
}

template <typename Work>
void time_pictures(benchmark::State& state, Work&& work) {
  if (photos().empty()) return state.SkipWithError("STRETTO_MEDIA_PICTURES names no pictures");
  if (!results_agree()) return state.SkipWithError("spliced files give other results");
  Worker worker;
  std::vector<std::pair<const Photo*, Sample>> samples;
  for (uint64_t i = 0; i < kDraws; ++i) {
    for (const Photo& p : photos()) samples.emplace_back(&p, draw(p, samples.size()));
  }
  size_t next = 0;
  for (auto _ : state) {
    const auto& [photo, sample] = samples[next];
    next = (next + 1) % samples.size();
    work(*photo, sample, worker);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

void entropy_floor(const Photo& p, const Sample&, Worker&) {
  jpeg::Decompressor decompressor(p.file, {});
  jpeg_decompress_struct& info = decompressor.info();
  decompressor.run([&] {
    jpeg_read_header(&info, TRUE);
    info.raw_data_out = TRUE;
    info.out_color_space = info.jpeg_color_space;
    jpeg_start_decompress(&info);
    for (int k = 0; k < info.num_components; ++k) info.comp_info[k].component_needed = FALSE;
    JSAMPROW rows[3][4 * DCTSIZE] = {};
    JSAMPARRAY planes[3] = {rows[0], rows[1], rows[2]};
    const auto lines = static_cast<JDIMENSION>(info.max_v_samp_factor * DCTSIZE);
    while (info.output_scanline < info.output_height) jpeg_read_raw_data(&info, planes, lines);
  });
}

void full_rgb(const Photo& p, const Sample&, Worker&) {
  benchmark::DoNotOptimize(jpeg::decode_rgb(p.file).rgb.data());
}
void full_planes(const Photo& p, const Sample&, Worker& w) {
  jpeg::decode_planes(p.file, {0, 0, p.info.width, p.info.height}, {}, w.planes);
}
void region_planes(const Photo& p, const Sample& s, Worker& w) { plain(p, s, w); }
void splice_planes(const Photo& p, const Sample& s, Worker& w) { spliced(p, s, w); }
void region_fused_float32(const Photo& p, const Sample& s, Worker& w) {
  run_fuse(plain(p, s, w), s, DType::kFloat32, true, w);
}
void splice_fused_float32(const Photo& p, const Sample& s, Worker& w) {
  run_fuse(spliced(p, s, w), s, DType::kFloat32, true, w);
}
void splice_fused_float16(const Photo& p, const Sample& s, Worker& w) {
  run_fuse(spliced(p, s, w), s, DType::kFloat16, true, w);
}
void splice_fused_uint8_nhwc(const Photo& p, const Sample& s, Worker& w) {
  run_fuse(spliced(p, s, w), s, DType::kUInt8, false, w);
}

BENCHMARK_CAPTURE(time_pictures, entropy_floor, entropy_floor);
BENCHMARK_CAPTURE(time_pictures, full_rgb, full_rgb);
BENCHMARK_CAPTURE(time_pictures, full_planes, full_planes);
BENCHMARK_CAPTURE(time_pictures, region_planes, region_planes);
BENCHMARK_CAPTURE(time_pictures, splice_planes, splice_planes);
BENCHMARK_CAPTURE(time_pictures, region_fused_float32, region_fused_float32);
BENCHMARK_CAPTURE(time_pictures, splice_fused_float32, splice_fused_float32);
BENCHMARK_CAPTURE(time_pictures, splice_fused_float16, splice_fused_float16);
BENCHMARK_CAPTURE(time_pictures, splice_fused_uint8_nhwc, splice_fused_uint8_nhwc);

// fuse() alone, from planes of whole pictures that are decoded already.
void fuse_decoded(benchmark::State& state) {
  if (photos().empty()) return state.SkipWithError("STRETTO_MEDIA_PICTURES names no pictures");
  Worker worker;
  std::vector<Buffer> buffers(photos().size());
  std::vector<Planes> planes;
  for (size_t i = 0; i < photos().size(); ++i) {
    const Photo& p = photos()[i];
    const Region all{0, 0, p.info.width, p.info.height};
    planes.push_back(jpeg::decode_planes(p.file, all, {}, buffers[i]));
  }
  uint64_t number = 0;
  for (auto _ : state) {
    const size_t i = number % photos().size();
    const Sample s = draw(photos()[i], number++ % (kDraws * photos().size()));
    run_fuse(planes[i], s, DType::kFloat32, true, worker);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(fuse_decoded);

void transcode(benchmark::State& state) {
  if (photos().empty()) return state.SkipWithError("STRETTO_MEDIA_PICTURES names no pictures");
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(jpeg::transcode(photos()[next].file).data());
    next = (next + 1) % photos().size();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(transcode);

}  // namespace
}  // namespace stretto::media
