#include "stretto/runtime/pictures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/parallel.h"
#include "stretto/media/preprocess.h"

namespace stretto::runtime {
namespace {

using media::Channels;

// Pictures that lie one behind the other, and how they are read.
struct Batch {
  int64_t count = 1, height = 0, width = 0;
  bool grey = false;
  bool file = false;  // one, in its encoded form
};

Batch batch_of(const Tensor& t, const std::string& label) {
  const auto refuse = [&] {
    throw_invalid(
        "{}: expected pictures as uint8 of H x W x 3, N x H x W x 3 or H x W, or the bytes of a "
        "JPEG, "
        "PNG or WebP file, got {} of shape {}",
        label, dtype_name(t.dtype()), shape_text(t.shape()));
  };
  if (t.dtype() != DType::kUInt8) refuse();
  if (t.rank() == 1) return {.file = true};
  if (t.rank() < 2 || t.rank() > 4) refuse();
  const int64_t channels = t.rank() == 2 ? 1 : t.shape().back();
  if (channels != 3 && channels != 1) refuse();
  const int64_t first = t.rank() == 4 ? 1 : 0;  // of the axes of one picture
  const Batch batch{.count = first == 1 ? t.dim(0) : 1,
                    .height = t.dim(first),
                    .width = t.dim(first + 1),
                    .grey = channels == 1};
  if (batch.count < 1) throw_invalid("{}: a batch of {} pictures", label, batch.count);
  if (std::min(batch.height, batch.width) < 1 ||
      std::max(batch.height, batch.width) > kMostPictureSide) {
    throw_invalid("{}: expected pictures of 1 to {} pixels a side, got {}x{}", label,
                  kMostPictureSide, batch.height, batch.width);
  }
  return batch;
}

// Memory that the pictures of one thread reuse; not that of one huge picture.
struct Scratch {
  media::Buffer decoded;
  media::FuseScratch fuse;
  void release_large() {
    constexpr size_t kMostKept = size_t{16} << 20;
    for (media::Buffer* buffer : {&decoded, &fuse.planes, &fuse.floats}) {
      buffer->release_above(kMostKept);
    }
  }
};

Scratch& scratch_of_thread() {
  thread_local Scratch scratch;
  return scratch;
}

void prepare_one(const media::Preprocess& steps, Channels channels, DType dtype,
                 const Tensor& pictures, const Batch& batch, int64_t at, std::byte* out) {
  Scratch& scratch = scratch_of_thread();
  struct Release {
    Scratch& scratch;
    ~Release() { scratch.release_large(); }
  } const release{scratch};
  const auto* bytes = static_cast<const std::byte*>(pictures.data());
  const Isa isa = usable_isa();
  if (batch.file) {
    media::preprocess_file(steps, {bytes, pictures.bytes()}, dtype, channels, out, scratch.decoded,
                           scratch.fuse, isa);
    return;
  }
  const int64_t size = batch.height * batch.width * (batch.grey ? 1 : 3);
  media::preprocess_pixels(steps, reinterpret_cast<const uint8_t*>(bytes) + at * size, batch.width,
                           batch.height, batch.grey, dtype, channels, out, scratch.fuse, isa);
}

Shape shape_of(const media::Preprocess& steps, bool channels_last, int64_t count) {
  const auto [width, height] = steps.size;
  return channels_last ? Shape{count, height, width, 3} : Shape{count, 3, height, width};
}

// Whether an input as the file and the options declare it can be `made`: four dimensions, each of
// them open or the same.
bool can_be(const onnx::DeclaredInput& input, const OptimizeOptions& options, const Shape& made) {
  if (!input.is_tensor) return false;
  ShapeRange asked;
  if (const auto at = options.shapes.find(input.name); at != options.shapes.end()) {
    asked = fixed_range(at->second);
  } else if (const auto range = options.ranges.find(input.name); range != options.ranges.end()) {
    asked = range->second;
  }
  if (!asked.empty() && asked.size() != made.size()) return false;
  for (size_t i = 1; i < asked.size(); ++i) {
    if (made[i] < asked[i].least || made[i] > asked[i].most) return false;
  }
  if (!input.shape) return true;
  if (input.shape->size() != made.size()) return false;
  for (size_t i = 1; i < made.size(); ++i) {
    const int64_t size = (*input.shape)[i].size;
    if (size >= 0 && size != made[i]) return false;
  }
  return true;
}

std::string declared_text(const onnx::DeclaredInput& input) {
  if (!input.shape) return input.name;
  std::vector<std::string> sizes;
  for (const onnx::DeclaredDimension& d : *input.shape) {
    sizes.push_back(d.size >= 0 ? fmt::format("{}", d.size) : d.name.empty() ? "?" : d.name);
  }
  return fmt::format("{} {}", input.name, fmt::join(sizes, "x"));
}

}  // namespace

std::shared_ptr<const media::Preprocess> parse_steps(const std::string& text) {
  return std::make_shared<const media::Preprocess>(media::parse_preprocess(text));
}

PictureInput find_picture_input(const OptimizeOptions& options,
                                const std::vector<onnx::DeclaredInput>& declared,
                                const std::string& source) {
  const media::Preprocess steps = media::parse_preprocess(options.preprocess);
  std::vector<PictureInput> found;
  std::vector<std::string> names, all;
  for (size_t i = 0; i < declared.size(); ++i) {
    all.push_back(declared_text(declared[i]));
    for (const bool last : {false, true}) {
      if (steps.channels && (*steps.channels == Channels::kLast) != last) continue;
      const Shape made = shape_of(steps, last, 1);
      if (!can_be(declared[i], options, made)) continue;
      found.push_back({.index = i, .channels_last = last, .shape = made});
      names.push_back(declared[i].name);
      break;  // where a file says nothing, channels come first
    }
  }
  if (found.size() == 1) return found.front();
  const Shape made = shape_of(steps, steps.channels && *steps.channels == Channels::kLast, 1);
  if (found.empty()) {
    throw_invalid("{}: preprocess: it makes {} of a picture, which no input takes; the inputs: {}",
                  source, shape_text(made), fmt::join(all, ", "));
  }
  throw_invalid(
      "{}: preprocess: several inputs may take pictures ({}); give the others their shapes", source,
      fmt::join(names, ", "));
}

std::shared_ptr<const Pictures> make_pictures(const std::string& text, size_t index,
                                              bool channels_last,
                                              const std::vector<TensorSpec>& inputs,
                                              std::vector<ShapeRange> ranges) {
  auto made = std::make_shared<Pictures>();
  made->steps = parse_steps(text);
  made->text = media::preprocess_text(*made->steps);
  if (index >= inputs.size() || ranges.size() != inputs.size()) {
    throw_invalid("preprocess: the model has no input {}", index);
  }
  made->index = index;
  made->channels_last = channels_last;
  const TensorSpec& taken = inputs[index];
  Shape expected = shape_of(*made->steps, channels_last, 1);
  if (taken.shape.size() == 4) expected[0] = taken.shape[0];
  if (taken.shape != expected || ranges[index].size() != expected.size()) {
    throw_invalid("preprocess: input {} takes {}, and the steps make {}", taken.name,
                  shape_text(taken.shape), shape_text(expected));
  }
  if (taken.dtype != DType::kFloat32 && taken.dtype != DType::kFloat16 &&
      taken.dtype != DType::kBFloat16) {
    throw_unsupported(
        "preprocess: input {} takes {}; only models that take float32, float16 or bfloat16 can be "
        "given pictures",
        taken.name, dtype_name(taken.dtype));
  }
  // A size that says what is seen; runs on plain memory have it.
  const media::Preprocess& steps = *made->steps;
  const media::Size seen = steps.fit == media::Fit::kShorter
                               ? media::Size{.width = steps.shorter, .height = steps.shorter}
                           : steps.fit == media::Fit::kStretch ? steps.resized
                                                               : steps.size;
  made->inputs = inputs;
  made->inputs[index].dtype = DType::kUInt8;
  made->inputs[index].shape = {taken.shape[0], seen.height, seen.width, 3};
  made->ranges = std::move(ranges);
  const Dimension batch = made->ranges[index][0];
  made->ranges[index] = {batch,
                         {.least = 1, .most = kMostPictureSide},
                         {.least = 1, .most = kMostPictureSide},
                         {.least = 3, .most = 3}};
  return made;
}

Tensor prepared(const media::Preprocess& steps, bool channels_last, DType dtype,
                const Tensor& pictures, const std::string& label, int threads) {
  const Batch batch = batch_of(pictures, label);
  Tensor result(dtype, shape_of(steps, channels_last, batch.count));
  const size_t size = result.bytes() / static_cast<size_t>(batch.count);
  auto* out = static_cast<std::byte*>(result.mutable_data());
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t i = next++; i < batch.count; i = next++) {
      prepare_one(steps, channels_last ? Channels::kLast : Channels::kFirst, dtype, pictures, batch,
                  i, out + static_cast<size_t>(i) * size);
    }
  };
  try {
    const auto most = static_cast<int>(std::min<int64_t>(threads, batch.count));
    most > 1 ? run_parallel(most, work) : work();
  } catch (const FormatError& error) {
    throw FormatError(label, -1, error.what(), error.code());
  } catch (const Unsupported& error) {
    throw_unsupported("{}: {}", label, error.what());
  }
  return result;
}

Tensor prepared(const Pictures& pictures, const TensorSpec& taken, const Tensor& given,
                int threads) {
  if (given.dtype() == taken.dtype && given.rank() == 4) return given;
  const Dimension& batch = pictures.ranges[pictures.index][0];
  const int64_t count = given.rank() == 4 ? given.shape()[0] : 1;
  if (given.dtype() == DType::kUInt8 && (count < batch.least || count > batch.most)) {
    throw_invalid("input {}: expected a batch of {}, got {}", taken.name, shape_range_text({batch}),
                  count);
  }
  return prepared(*pictures.steps, pictures.channels_last, taken.dtype, given,
                  "input " + taken.name, threads);
}

double time_preprocess(const Pictures& pictures, DType dtype) {
  Tensor picture(DType::kUInt8, {kTimedPicture[0], kTimedPicture[1], 3});
  auto* pixels = static_cast<uint8_t*>(picture.mutable_data());
  for (size_t i = 0; i < picture.bytes(); ++i) pixels[i] = static_cast<uint8_t>(i * 7 / 5);
  std::vector<double> seconds;
  for (int i = 0; i < 11; ++i) {
    check_interrupt();
    const double begin = now_s();
    prepared(*pictures.steps, pictures.channels_last, dtype, picture, "picture", 1);
    seconds.push_back(now_s() - begin);
  }
  std::nth_element(seconds.begin(), seconds.begin() + 5, seconds.end());
  return seconds[5] * 1e3;
}

}  // namespace stretto::runtime
