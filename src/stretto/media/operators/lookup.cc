// Operators that give each byte of a channel another by a table, as Pillow's ImageOps.
#include <algorithm>
#include <cmath>

#include "stretto/media/operators/kinds.h"

namespace stretto::media::operators {
namespace {

using ByteTable = std::array<uint8_t, 256>;
using Histogram = std::array<int64_t, 256>;

template <class F>
void change_bytes(const Pixels& pixels, F&& f) {
  ByteTable table;
  for (int v = 0; v < 256; ++v) table[static_cast<size_t>(v)] = static_cast<uint8_t>(f(v));
  for (int64_t i = 0; i < pixels.bytes(); ++i) pixels.rgb[i] = table[pixels.rgb[i]];
}

// A table for each channel, from its histogram.
void change_channels(const Pixels& pixels, ByteTable (*table_of)(const Histogram&)) {
  std::array<Histogram, 3> histograms{};
  for (int64_t i = 0; i < pixels.bytes(); i += 3) {
    for (size_t c = 0; c < 3; ++c) ++histograms[c][pixels.rgb[i + static_cast<int64_t>(c)]];
  }
  std::array<ByteTable, 3> tables;
  for (size_t c = 0; c < 3; ++c) tables[c] = table_of(histograms[c]);
  for (int64_t i = 0; i < pixels.bytes(); i += 3) {
    uint8_t* p = pixels.rgb + i;
    for (size_t c = 0; c < 3; ++c) p[c] = tables[c][p[c]];
  }
}

ByteTable identity() {
  ByteTable table;
  for (size_t v = 0; v < 256; ++v) table[v] = static_cast<uint8_t>(v);
  return table;
}

ByteTable stretched(const Histogram& histogram) {
  const auto is_there = [](int64_t n) { return n != 0; };
  const auto low = std::find_if(histogram.begin(), histogram.end(), is_there) - histogram.begin();
  const auto high =
      255 - (std::find_if(histogram.rbegin(), histogram.rend(), is_there) - histogram.rbegin());
  if (high <= low) return identity();
  const double scale = 255.0 / static_cast<double>(high - low);
  const double offset = -static_cast<double>(low) * scale;
  ByteTable table;
  for (size_t v = 0; v < 256; ++v) {
    const double value = std::clamp(static_cast<double>(v) * scale + offset, 0.0, 255.0);
    table[v] = static_cast<uint8_t>(value);
  }
  return table;
}

ByteTable spread(const Histogram& histogram) {
  int64_t sum = 0, last = 0, values = 0;
  for (const int64_t n : histogram) {
    if (n == 0) continue;
    sum += n;
    last = n;
    ++values;
  }
  const int64_t step = values <= 1 ? 0 : (sum - last) / 255;
  if (step == 0) return identity();
  ByteTable table;
  int64_t below = step / 2;
  for (size_t v = 0; v < 256; ++v) {
    table[v] = static_cast<uint8_t>(std::min<int64_t>(below / step, 255));
    below += histogram[v];
  }
  return table;
}

}  // namespace

void apply_auto_contrast(const Step&, const Pixels& pixels, Work&) {
  change_channels(pixels, stretched);
}

void apply_equalize(const Step&, const Pixels& pixels, Work&) { change_channels(pixels, spread); }

void apply_invert(const Step&, const Pixels& pixels, Work&) {
  change_bytes(pixels, [](int v) { return 255 - v; });
}

void apply_posterize(const Step& step, const Pixels& pixels, Work&) {
  const int mask = 0xFF & ~((1 << (8 - static_cast<int>(step.value[0]))) - 1);
  change_bytes(pixels, [&](int v) { return v & mask; });
}

void apply_solarize(const Step& step, const Pixels& pixels, Work&) {
  const double threshold = step.value[0];
  change_bytes(pixels, [&](int v) { return v < threshold ? v : 255 - v; });
}

}  // namespace stretto::media::operators
