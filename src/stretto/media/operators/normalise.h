// The last step after picture operators: bytes to what a model takes.
#pragma once

#include <span>

#include "stretto/media/operators/operator.h"

namespace stretto::media::operators {

// Writes (v / 255 - mean) / std as target.dtype: float32, float16 or bfloat16; uint8 is copied. The
// pixels in `erased` become 0, or as uint8 the byte nearest to the mean. Throws InvalidArgument as
// fuse() does, and for a rectangle that is not inside.
void normalise(const Pixels& pixels, const Target& target, std::span<const Region> erased,
               Work& work, Isa isa);

// The rectangles alone, of a result that fuse() made.
void erase(const Target& target, int64_t width, int64_t height, std::span<const Region> erased);

// The same as normalise() in plain code, against which it is tested.
void normalise_reference(const Pixels& pixels, const Target& target,
                         std::span<const Region> erased);

}  // namespace stretto::media::operators
