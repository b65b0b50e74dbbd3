// Splitting an output map into rectangles within which every pixel sees the same taps of the
// kernel, so that borders need neither a padded copy of the input nor a test per pixel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stretto/kernels/cycles.h"
#include "stretto/kernels/simd/tile.h"

namespace stretto::kernels::conv2d {

// One axis of a convolution.
struct Axis {
  int64_t in, out;
  int64_t kernel, stride, dilation, pad;

  // Taps [first(o), last(o)) of output position o fall inside the input.
  int64_t first(int64_t o) const {
    const int64_t at = o * stride - pad;
    return at >= 0 ? 0 : std::min(kernel, (-at + dilation - 1) / dilation);
  }
  int64_t last(int64_t o) const {
    const int64_t room = in - (o * stride - pad);
    return room <= 0 ? 0 : std::min(kernel, (room + dilation - 1) / dilation);
  }
  // End of the run of positions from `o`, below `end`, that have the same taps as o.
  int64_t run_end(int64_t o, int64_t end) const {
    const int64_t f = first(o), l = last(o);
    int64_t e = o + 1;
    while (e < end && first(e) == f && last(e) == l) ++e;
    return e;
  }
  // The longest run of positions with the same taps: those that see every tap, unless dilation is
  // so large that few do.
  int64_t longest_run() const {
    int64_t longest = 0;
    for (int64_t o = 0; o < out;) {
      const int64_t end = run_end(o, out);
      longest = std::max(longest, end - o);
      o = end;
    }
    return longest;
  }
  // How many such runs there are.
  int64_t runs() const {
    int64_t count = 0;
    for (int64_t o = 0; o < out; o = run_end(o, out)) ++count;
    return count;
  }
  // The most taps that one position sees.
  int64_t most_taps() const {
    int64_t most = 0;
    for (int64_t o = 0; o < out; o = run_end(o, out)) most = std::max(most, last(o) - first(o));
    return most;
  }
  // How many taps fall inside the input for any position.
  int64_t taps_seen() const {
    int64_t seen = 0;
    for (int64_t tap = 0; tap < kernel; ++tap) {
      // Positions [begin, end) see it.
      const int64_t at = pad - tap * dilation;
      const int64_t begin = at > 0 ? (at + stride - 1) / stride : 0;
      const int64_t end = at + in > 0 ? std::min(out, (at + in - 1) / stride + 1) : 0;
      seen += begin < end;
    }
    return seen;
  }
};

// Output rows [y, y_end) x columns [x, x_end) with taps rows [r, r_end) x columns [s, s_end); the
// tap ranges are empty where only padding is seen.
struct Patch {
  int64_t y, y_end, x, x_end;
  int64_t r, r_end, s, s_end;

  int64_t taps_down() const { return std::max<int64_t>(r_end - r, 0); }
  int64_t taps_across() const { return std::max<int64_t>(s_end - s, 0); }
};

// Calls f(patch) for the patches of output rows [begin, end), top to bottom, left to right.
template <typename F>
void for_patches(const Axis& vertical, const Axis& horizontal, int64_t begin, int64_t end, F&& f) {
  for (int64_t y = begin; y < end;) {
    const int64_t y_end = vertical.run_end(y, end);
    for (int64_t x = 0; x < horizontal.out;) {
      const int64_t x_end = horizontal.run_end(x, horizontal.out);
      f(Patch{y, y_end, x, x_end, vertical.first(y), vertical.last(y), horizontal.first(x),
              horizontal.last(x)});
      x = x_end;
    }
    y = y_end;
  }
}

// Between the weights of an input block that the patches of a map use, the places where the next
// ones do not follow in memory; none where a patch uses all taps.
inline int64_t tap_gaps(const Axis& vertical, const Axis& horizontal) {
  if (horizontal.most_taps() < horizontal.kernel) {
    return vertical.taps_seen() * horizontal.runs();
  }
  return vertical.most_taps() < vertical.kernel ? vertical.runs() : 0;
}

// A patch cut into tiles of at most `most` pixels along its longer side.
struct PatchTiles {
  bool down;  // tiles run down a column
  int64_t lines;
  EvenTiles tiles;
  PatchTiles(const Patch& patch, int most)
      : down(patch.y_end - patch.y > patch.x_end - patch.x),
        lines(down ? patch.x_end - patch.x : patch.y_end - patch.y),
        tiles(down ? patch.y_end - patch.y : patch.x_end - patch.x, most) {}
  // Calls f(y, x, pixels) for every tile; (y, x) is its first output pixel.
  template <typename F>
  void for_each(const Patch& patch, F&& f) const {
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t t = 0; t < tiles.tiles; ++t) {
        const int64_t at = tiles.begin(t);
        f(patch.y + (down ? at : line), patch.x + (down ? line : at),
          static_cast<int>(tiles.begin(t + 1) - at));
      }
    }
  }
};

// Adds to `work` the tiles of a map for `panels` panels of so many vectors; a tile reduces over
// depth(patch) values, in `parts`.
template <typename F>
void add_tiles(TileWork& work, const Axis& vertical, const Axis& horizontal, int most,
               double panels, double vectors, double parts, F&& depth) {
  for_patches(vertical, horizontal, 0, vertical.out, [&](const Patch& patch) {
    const PatchTiles cut(patch, most);
    const auto tiles = static_cast<double>(cut.tiles.tiles);
    work.add(panels * static_cast<double>(cut.lines) * tiles,
             static_cast<double>(cut.tiles.count) / tiles, vectors, depth(patch), parts);
  });
}

}  // namespace stretto::kernels::conv2d
