// From decoded planes to what a model takes, in one step: the part of the picture that a sample
// shows, resized, turned as EXIF says, mirrored, in RGB, changed in colour, normalised, in the
// element type and layout of the caller's memory. Nothing of the picture's size is written between.
//
// Each plane is resized from its own resolution, so that chroma of JPEG files is never made larger
// and only what a model sees is converted to RGB. The result is Pillow's within its rounding:
// Pillow rounds to 8 bits after colour conversion and after each direction, this rounds once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "stretto/base/cpu.h"
#include "stretto/media/colour.h"
#include "stretto/media/crop.h"
#include "stretto/media/picture.h"
#include "stretto/media/weights.h"
#include "stretto/tensor/dtype.h"

namespace stretto::media {

// Which pixels count at the edges of the box.
enum class Edge : uint8_t {
  kPicture,  // those beside it too, as Pillow's Image.resize(size, resample, box)
  kBox,      // only its own, as Image.crop(box).resize(size)
};

// What is shown of a picture, and how large.
struct View {
  Box box;                        // in the picture as it is to be seen, after `orientation`
  int64_t width = 0, height = 0;  // of the result
  Filter filter = Filter::kTriangle;
  Edge edge = Edge::kPicture;
  bool flip = false;    // left to right, after everything else
  int orientation = 1;  // EXIF, 1 to 8: how the stored picture is turned
};

// The size of a picture after its orientation is applied.
struct Size {
  int64_t width = 0, height = 0;
  bool operator==(const Size&) const = default;
};
Size oriented_size(int64_t width, int64_t height, int orientation);

// Which pixels of a stored picture of this size fuse() reads for a view: what to decode. Chroma of
// up to 1/4 is allowed for. Throws InvalidArgument for a view that is none.
Region needed_region(const View& view, int64_t width, int64_t height);

// Where the result goes. Element (y, x, channel) is at data[y * row_stride + x * pixel_stride +
// channel * channel_stride], in elements.
struct Target {
  void* data = nullptr;
  DType dtype = DType::kFloat32;  // float32, float16, bfloat16 or uint8
  int64_t row_stride = 0, pixel_stride = 1, channel_stride = 0;
  // Floats become (v / 255 - mean) / std; uint8 is rounded as Pillow rounds and left as it is.
  std::array<float, 3> mean{0, 0, 0}, std{1, 1, 1};
};
Target planar_target(void* data, DType dtype, int64_t width, int64_t height);  // C, H, W
Target interleaved_target(void* data, DType dtype, int64_t width);             // H, W, C

// Memory and tables that calls of one thread reuse.
struct FuseScratch {
  Buffer planes, floats;
};

// Grey pictures give three equal channels. Throws InvalidArgument for a view that is none, for
// planes that lack pixels which it needs, and for other element types. `isa` is one of
// usable_isas().
void fuse(const Planes& planes, const View& view, const std::optional<ColourMatrix>& colour,
          const Target& target, FuseScratch& scratch, Isa isa);

// The same in plain code and double precision, against which fuse() is tested.
void fuse_reference(const Planes& planes, const View& view,
                    const std::optional<ColourMatrix>& colour, const Target& target);

// One plane alone, to floats in 0..255 (beyond for the cubic filter), of rows `stride` floats
// apart. `rows` and `columns` are tables for the component's samples.
void resample(const Plane& plane, const Taps& rows, const Taps& columns, float* out, int64_t stride,
              FuseScratch& scratch, Isa isa);
void resample_reference(const Plane& plane, const Taps& rows, const Taps& columns, float* out,
                        int64_t stride);

// The mean of 0.299 R + 0.587 G + 0.114 B over the pixels of the stored picture that lie in
// `region` and in the planes: what contrast() keeps.
float mean_grey(const Planes& planes, const Region& region);

}  // namespace stretto::media
