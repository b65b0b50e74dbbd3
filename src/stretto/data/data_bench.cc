// Samples per second of a loader with one thread, from the JPEG files that STRETTO_MEDIA_PICTURES
// names (photographs, as for media_bench): as files of a folder, and written again with restart
// markers into one shard. Samples are RandomResizedCrop to 224x224, mirrored at random.
//
// by_hand is the same work in a plain loop, from memory: what a loader adds to it is its own cost.
// Before each epoch of a cold_ run the system forgets the files.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/data/index.h"
#include "stretto/data/loader.h"
#include "stretto/data/restarts.h"
#include "stretto/data/sample_work.h"
#include "stretto/media/decode.h"
#include "stretto/media/jpeg/splice.h"
#include "stretto/media/jpeg/transcode.h"

namespace stretto::data {
namespace {

constexpr int64_t kBatch = 30;

// Samples of the cold runs are as many copies of each picture: an epoch has to be longer than what
// is read ahead.
constexpr int kColdCopies = 20;

struct Pictures {
  struct Entry {
    std::vector<std::byte> file;
    media::jpeg::RestartTable table;
    media::PictureInfo info;
  };
  std::string temporary;
  std::optional<Dataset> folder, pack, cold_folder, cold_pack;
  std::vector<Entry> entries;  // in the order of the samples
  ~Pictures() {
    std::error_code ignored;
    if (!temporary.empty()) std::filesystem::remove_all(temporary, ignored);
  }
};

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The same samples twice: files below a folder, and a shard.
struct Writer {
  std::string root;
  TableBuilder folder, pack;
  std::string shard;

  void add(const std::string& name, std::string_view file, const Pictures::Entry& e) {
    write_file(fmt::format("{}/{}", root, name), file);
    const auto table = encode_restarts(e.table);
    folder.add(name, {.length = file.size(), .label = 1});
    shard += text_of(table);
    pack.add(name, {.offset = shard.size(),
                    .length = e.file.size(),
                    .label = 1,
                    .restart_bytes = static_cast<uint32_t>(table.size())});
    shard += text_of(e.file);
  }
  void finish(std::optional<Dataset>& as_folder, std::optional<Dataset>& as_pack) {
    write_file(root + "/shard", shard);
    folder.table().source = folder.table().one_file_each_below = root;
    pack.table().source = root;
    pack.table().containers = {root + "/shard"};
    as_folder.emplace(std::move(folder).take());
    as_pack.emplace(std::move(pack).take());
  }
};

const Pictures& pictures() {
  static const Pictures all = [] {
    Pictures p;
    const char* source = std::getenv("STRETTO_MEDIA_PICTURES");
    if (source == nullptr) return p;
    std::string name = std::filesystem::temp_directory_path() / "stretto-bench-XXXXXX";
    STRETTO_CHECK(::mkdtemp(name.data()) != nullptr, "cannot make {}", name);
    p.temporary = name;
    Writer warm{.root = name + "/warm"}, cold{.root = name + "/cold"};
    for (const Writer* w : {&warm, &cold}) std::filesystem::create_directories(w->root);
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(source)) {
      paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      const std::string text = read_file(path.string());
      const media::Bytes bytes = std::as_bytes(std::span(text));
      Pictures::Entry e{.file = media::jpeg::transcode(bytes), .info = media::read_info(bytes)};
      const auto found = media::jpeg::restart_table(e.file);
      if (!found) throw_invalid("{}: no table: {}", path.string(), found.reason);
      e.table = found.table;
      warm.add(path.filename().string(), text, e);
      for (int i = 0; i < kColdCopies; ++i) {
        cold.add(fmt::format("{}-{}", i, path.filename().string()), text, e);
      }
      p.entries.push_back(std::move(e));
    }
    warm.finish(p.folder, p.pack);
    cold.finish(p.cold_folder, p.cold_pack);
    return p;
  }();
  return all;
}

// The system keeps no page of a file that is on the disk.
void forget(const Dataset& dataset) {
#if defined(POSIX_FADV_DONTNEED)
  for (int64_t i = 0; i < (dataset.one_file_each() ? dataset.size() : 1); ++i) {
    const int fd = ::open(dataset.path(i).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
#endif
}

LoaderOptions options_of(CacheKind cache, DType dtype) {
  LoaderOptions o;
  o.phases[0].shape.batch = kBatch;
  o.threads = 1;
  o.ahead = 2;
  o.cache = cache;
  o.cache_bytes = int64_t{1} << 30;
  o.dtype = dtype;
  o.layout = dtype == DType::kUInt8 ? PixelLayout::kNhwc : PixelLayout::kNchw;
  o.last = Last::kWrap;
  return o;
}

struct ByHand {
  media::Buffer planes, part;
  media::FuseScratch scratch;
  std::vector<float> out = std::vector<float>(static_cast<size_t>(3 * 224 * 224 * kBatch * 4));

  const float* run(const LoaderOptions& o, int64_t epoch, int64_t sample, int64_t slot) {
    const Pictures::Entry& e = pictures().entries[static_cast<size_t>(sample)];
    const Draws draws{.seed = o.order.seed,
                      .number = static_cast<uint64_t>(sample),
                      .epoch = static_cast<uint32_t>(epoch)};
    const media::View view =
        frame_of(o, o.phases[0].shape, draws, e.info.width, e.info.height, e.info.orientation).view;
    const media::Region region = media::needed_region(view, e.info.width, e.info.height);
    float* const to = out.data() + slot * 3 * 224 * 224;
    media::Target target = media::planar_target(to, DType::kFloat32, 224, 224);
    target.mean = o.mean;
    target.std = o.std;
    media::fuse(media::jpeg::decode_spliced(e.file, e.table, region, {}, planes, part), view,
                std::nullopt, target, scratch, usable_isa());
    return to;
  }
};

// The loader has to give what is made by hand before it is timed.
bool loader_agrees(const Dataset& dataset) {
  const LoaderOptions o = options_of(CacheKind::kPage, DType::kFloat32);
  Loader loader(dataset, o);
  ByHand by_hand;
  const auto batch = loader.next();
  for (int64_t j = 0; j < kBatch; ++j) {
    const float* const expected = by_hand.run(o, 0, batch->samples[j], 0);
    const auto* const got = static_cast<const float*>(batch->data) + j * 3 * 224 * 224;
    if (!std::equal(got, got + 3 * 224 * 224, expected)) return false;
  }
  return true;
}

void load(benchmark::State& state, bool packed, CacheKind cache, DType dtype) {
  if (!pictures().pack) return state.SkipWithError("STRETTO_MEDIA_PICTURES names no pictures");
  const Dataset& dataset = packed ? *pictures().pack : *pictures().folder;
  if (!loader_agrees(dataset)) return state.SkipWithError("the loader gives other pixels");
  Loader loader(dataset, options_of(cache, dtype));
  while (loader.next()) {  // caches are filled
  }
  for (int i = 0; i < 3; ++i) loader.next();  // and batches ahead are in the making
  int64_t samples = 0;
  for (auto _ : state) {
    auto batch = loader.next();
    if (!batch) batch = loader.next();
    benchmark::DoNotOptimize(batch->data);
    samples += batch->count;
  }
  state.SetItemsProcessed(samples);
}

// Whole epochs, from the start of a loader to its last batch.
void load_cold(benchmark::State& state, bool packed, CacheKind cache, bool io_uring) {
  if (!pictures().pack) return state.SkipWithError("STRETTO_MEDIA_PICTURES names no pictures");
  const Dataset& dataset = packed ? *pictures().cold_pack : *pictures().cold_folder;
  LoaderOptions o = options_of(cache, DType::kFloat32);
  o.threads = static_cast<int>(state.range(0));
  o.io_uring = io_uring;
  int64_t samples = 0;
  double reading = 0, ring_reads = 0;
  for (auto _ : state) {
    state.PauseTiming();
    forget(dataset);
    state.ResumeTiming();
    Loader loader(dataset, o);
    while (const auto batch = loader.next()) samples += batch->count;
    const Stats stats = loader.stats();
    reading += stats.read_seconds;
    ring_reads += static_cast<double>(stats.ring_reads);
  }
  state.SetItemsProcessed(samples);
  state.counters["by_ring"] = ring_reads / static_cast<double>(samples);
  state.counters["read_us"] = 1e6 * reading / static_cast<double>(samples);
}

void by_hand(benchmark::State& state) {
  if (!pictures().pack) return state.SkipWithError("STRETTO_MEDIA_PICTURES names no pictures");
  const LoaderOptions o = options_of(CacheKind::kPage, DType::kFloat32);
  ByHand work;
  int64_t samples = 0, batches = 0;
  for (auto _ : state) {
    // Four batches in turns, as many as a loader has in use.
    const int64_t slot = batches % 4 * kBatch, epoch = batches++;
    const Order order(o.order, static_cast<int64_t>(pictures().entries.size()), epoch);
    for (int64_t j = 0; j < kBatch; ++j) work.run(o, epoch, order(j % order.size()), slot + j);
    samples += kBatch;
  }
  state.SetItemsProcessed(samples);
}

#define LOAD(name, ...) BENCHMARK_CAPTURE(load, name, __VA_ARGS__)->UseRealTime()
BENCHMARK(by_hand)->UseRealTime();
LOAD(pack_float32, true, CacheKind::kPage, DType::kFloat32);
LOAD(pack_uint8_nhwc, true, CacheKind::kPage, DType::kUInt8);
LOAD(folder_float32, false, CacheKind::kPage, DType::kFloat32);
LOAD(folder_uint8_nhwc, false, CacheKind::kPage, DType::kUInt8);
LOAD(user_cache_float32, true, CacheKind::kUser, DType::kFloat32);
LOAD(decoded_cache_float32, true, CacheKind::kDecoded, DType::kFloat32);
LOAD(decoded_cache_uint8_nhwc, true, CacheKind::kDecoded, DType::kUInt8);
#define COLD(name, ...)                           \
  BENCHMARK_CAPTURE(load_cold, name, __VA_ARGS__) \
      ->Arg(1)                                    \
      ->Arg(2)                                    \
      ->MeasureProcessCPUTime()                   \
      ->UseRealTime()
COLD(cold_pack, true, CacheKind::kPage, false);
COLD(cold_folder, false, CacheKind::kPage, false);
// The epoch in which the cache of encoded pictures is filled.
COLD(cold_pack_user_pread, true, CacheKind::kUser, false);
COLD(cold_pack_user_io_uring, true, CacheKind::kUser, true);
COLD(cold_folder_user_pread, false, CacheKind::kUser, false);
COLD(cold_folder_user_io_uring, false, CacheKind::kUser, true);

}  // namespace
}  // namespace stretto::data
