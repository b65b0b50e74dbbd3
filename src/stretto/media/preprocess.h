// What is done to a picture before a model looks at it, outside of training: resized, cropped,
// normalised, laid out. A list of named steps as text, which the options of optimize(), the command
// and artefacts share, and one way through fuse() that does all of them at once.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/media/decode.h"
#include "stretto/media/fuse.h"

namespace stretto::media {

enum class Fit : uint8_t {
  kShorter,    // the shorter side becomes `shorter`, and the middle is shown
  kStretch,    // each side becomes its own of `resized`, and the middle is shown
  kLetterbox,  // all of the picture is shown, in the middle of `size`, and the rest is `fill`
};

enum class Channels : uint8_t { kFirst, kLast };  // C, H, W or H, W, C

// What the steps come to.
struct Preprocess {
  Fit fit = Fit::kShorter;
  int64_t shorter = 0;  // of kShorter
  Size resized;         // of kStretch
  Size size;            // of the result
  int fill = 114;       // of kLetterbox: what all channels have beside the picture, 0 to 255
  Filter filter = Filter::kTriangle;
  std::array<float, 3> mean{0, 0, 0}, std{1, 1, 1};  // (v / 255 - mean) / std
  std::optional<Channels> channels;                  // nothing: as the model's input has them
  bool operator==(const Preprocess&) const = default;
};

// A row of the list of steps.
struct PreprocessStep {
  std::string_view name;
  std::string_view form;   // "resize(size, width, filter=triangle)"
  std::string_view means;  // one line
};
std::span<const PreprocessStep> preprocess_steps();

// "imagenet(224)", or "resize(256), center_crop(224), normalize(mean=[0.5, 0.5, 0.5], std=0.5)".
// Throws InvalidArgument that names what is wrong and what exists.
Preprocess parse_preprocess(std::string_view text);
// The steps from which parse_preprocess() makes the same again.
std::string preprocess_text(const Preprocess& preprocess);

// What fuse() is to show of a picture of this size, and where in the result it lies. The view's
// size is smaller than preprocess.size for Fit::kLetterbox only.
struct Placed {
  View view;
  int64_t left = 0, top = 0;
};
Placed place(const Preprocess& preprocess, int64_t width, int64_t height, int orientation);

// Writes a picture as `dtype` (float32, float16 or bfloat16) in `channels` to `out`, of
// preprocess.size: the same bits that the loader makes of it. `planes` hold at least
// needed_region(placed.view).
void preprocess_planes(const Preprocess& preprocess, const Planes& planes, const Placed& placed,
                       DType dtype, Channels channels, void* out, FuseScratch& scratch, Isa isa);

// The same of rows of R, G, B, R, ... or of single grey bytes, one after the other.
void preprocess_pixels(const Preprocess& preprocess, const uint8_t* pixels, int64_t width,
                       int64_t height, bool grey, DType dtype, Channels channels, void* out,
                       FuseScratch& scratch, Isa isa);

// The same of a file: what the loader reads of it is decoded, turned as EXIF says. Throws
// FormatError and Unsupported as decode_planes() does.
void preprocess_file(const Preprocess& preprocess, Bytes file, DType dtype, Channels channels,
                     void* out, Buffer& decoded, FuseScratch& scratch, Isa isa);

}  // namespace stretto::media
