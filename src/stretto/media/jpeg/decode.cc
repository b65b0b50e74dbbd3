#include "stretto/media/jpeg/decode.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/media/jpeg/inverse.h"
#include "stretto/media/jpeg/library.h"
#include "stretto/media/jpeg/sequential.h"

namespace stretto::media::jpeg {
namespace {

constexpr int kMaxComponents = 3;
// An iMCU row of a component has at most four rows of blocks.
constexpr int kMaxRows = 4 * DCTSIZE;

// Reads the headers and refuses what cannot be decoded.
void start(Decompressor& decompressor, const DecodeOptions& options) {
  jpeg_decompress_struct& info = decompressor.info();
  decompressor.run([&] { jpeg_read_header(&info, TRUE); });
  check_size(info.image_width, info.image_height, options);
  const int count = info.num_components;
  if (count != 1 && count != 3 && count != 4) {  // libjpeg reads up to ten
    throw_unsupported("JPEG: pictures of {} components", count);
  }
  info.dct_method = JDCT_ISLOW;
  // Else pixels of a progressive file that lacks its last scans would depend on more than its
  // coefficients, and change when it is rewritten.
  info.do_block_smoothing = FALSE;
}

bool has_cmyk(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

// Pillow takes CMYK of JPEG files as inverted, as Adobe writes it, and rounds the product so.
uint8_t scaled(int colour, int light) {
  const int product = (255 - colour) * light + 128;
  return static_cast<uint8_t>(std::clamp(light - (((product >> 8) + product) >> 8), 0, 255));
}

void cmyk_to_rgb(const uint8_t* cmyk, int64_t count, uint8_t* rgb) {
  for (int64_t i = 0; i < count; ++i) {
    for (int c = 0; c < 3; ++c) rgb[3 * i + c] = scaled(cmyk[4 * i + c], cmyk[4 * i + 3]);
  }
}

// One row of the picture after the other, as RGB, from the first one to `rows` - 1.
template <typename Row>
void read_rows(Decompressor& decompressor, int64_t rows, Row&& row_of) {
  jpeg_decompress_struct& info = decompressor.info();
  const bool cmyk = has_cmyk(info);
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  std::vector<uint8_t> line(cmyk ? 4 * static_cast<size_t>(info.image_width) : 0);
  decompressor.run([&] {
    jpeg_start_decompress(&info);
    for (int64_t y = 0; y < rows; ++y) {
      uint8_t* to = row_of(y);
      JSAMPROW into = cmyk ? line.data() : to;
      jpeg_read_scanlines(&info, &into, 1);
      if (cmyk) cmyk_to_rgb(line.data(), info.output_width, to);
    }
    // What follows the last row is not read: a file may have anything there.
  });
}

Planes decode_cmyk(Decompressor& decompressor, const Region& region, Buffer& buffer) {
  const jpeg_decompress_struct& info = decompressor.info();
  const int64_t width = info.image_width, stride = 3 * width;
  uint8_t* rgb = buffer.get(static_cast<size_t>(stride * region.height()));
  // Rows above the region are decoded into its first row, which is written last.
  read_rows(decompressor, region.y1,
            [&](int64_t y) { return rgb + std::max<int64_t>(y - region.y0, 0) * stride; });
  Planes planes = planes_of_rgb(rgb, width, region.height(), stride);
  planes.height = info.image_height;
  for (Plane& plane : planes.plane) {
    plane.y0 = region.y0;
    plane.full_height = info.image_height;
  }
  return planes;
}

// Where the planes of a region lie: rows of iMCUs from `first` to `last` - 1.
struct RawLayout {
  Planes planes;
  int64_t first, last;
  uint8_t* data[kMaxComponents];  // of the first row that is kept
  int64_t rows[kMaxComponents];   // of samples in one row of iMCUs
};

RawLayout lay_out(const jpeg_decompress_struct& info, const Region& region, Buffer& buffer) {
  RawLayout out{};
  Planes& planes = out.planes;
  planes.width = info.image_width;
  planes.height = info.image_height;
  planes.count = info.num_components;
  planes.colour = planes.count == 1                    ? Colour::kGrey
                  : info.jpeg_color_space == JCS_YCbCr ? Colour::kYCbCr
                                                       : Colour::kRgb;
  const int64_t step = info.max_v_samp_factor * DCTSIZE;
  out.first = region.y0 / step;
  out.last = ceil_div(region.y1, step);
  size_t offsets[kMaxComponents], total = 0;
  for (int k = 0; k < planes.count; ++k) {
    const jpeg_component_info& c = info.comp_info[k];
    Plane& plane = planes.plane[k];
    if (info.max_h_samp_factor % c.h_samp_factor || info.max_v_samp_factor % c.v_samp_factor) {
      throw_unsupported("JPEG: component {} has 1/{} of {}/{} columns and {}/{} rows", k,
                        info.max_h_samp_factor, c.h_samp_factor, info.max_h_samp_factor,
                        c.v_samp_factor, info.max_v_samp_factor);
    }
    plane.ratio_x = info.max_h_samp_factor / c.h_samp_factor;
    plane.ratio_y = info.max_v_samp_factor / c.v_samp_factor;
    plane.full_width = plane.width = ceil_div(planes.width, plane.ratio_x);
    plane.full_height = ceil_div(planes.height, plane.ratio_y);
    // libjpeg writes whole blocks.
    plane.stride = static_cast<int64_t>(c.width_in_blocks) * DCTSIZE;
    out.rows[k] = static_cast<int64_t>(c.v_samp_factor) * DCTSIZE;
    plane.y0 = out.first * out.rows[k];
    plane.height = std::min(plane.full_height, out.last * out.rows[k]) - plane.y0;
    offsets[k] = total;
    total +=
        static_cast<size_t>(plane.stride * (out.last - out.first) * out.rows[k] + 63) / 64 * 64;
  }
  uint8_t* data = buffer.get(total);
  for (int k = 0; k < planes.count; ++k) {
    out.data[k] = data + offsets[k];
    planes.plane[k].data = out.data[k];
  }
  return out;
}

Planes decode_raw(Decompressor& decompressor, const Region& region, Buffer& buffer) {
  jpeg_decompress_struct& info = decompressor.info();
  info.raw_data_out = TRUE;
  info.out_color_space = info.jpeg_color_space;
  decompressor.run([&] { jpeg_start_decompress(&info); });
  const RawLayout layout = lay_out(info, region, buffer);
  const int count = layout.planes.count;
  decompressor.run([&] {
    JSAMPROW rows[kMaxComponents][kMaxRows];
    JSAMPARRAY planes[kMaxComponents] = {rows[0], rows[1], rows[2]};
    const auto lines = static_cast<JDIMENSION>(info.max_v_samp_factor * DCTSIZE);
    for (int64_t y = 0; y < layout.last; ++y) {
      // Above the region the IDCT is left out: nothing is written. Huffman decoding, whose tables
      // were chosen when decoding began, goes on.
      const boolean needed = y >= layout.first;
      for (int k = 0; k < count; ++k) {
        info.comp_info[k].component_needed = needed;
        uint8_t* to = layout.data[k];
        if (needed) to += (y - layout.first) * layout.rows[k] * layout.planes.plane[k].stride;
        for (int64_t r = 0; r < layout.rows[k]; ++r) {
          rows[k][r] = to + r * layout.planes.plane[k].stride;
        }
      }
      jpeg_read_raw_data(&info, planes, lines);
    }
  });
  return layout.planes;
}

// The transform without vectors takes more time than is gained by what comes before it.
bool has_fast_transform(Isa isa) { return inverse_group(isa) > 1; }

// `isa`: of our own decoder, for the files that it takes.
Planes decode_planes_with(std::optional<Isa> isa, Bytes file, const Region& region,
                          const DecodeOptions& options, Buffer& buffer) {
  Decompressor decompressor(file, options);
  start(decompressor, options);
  jpeg_decompress_struct& info = decompressor.info();
  check_region(region, info.image_width, info.image_height);
  if (has_cmyk(info)) return decode_cmyk(decompressor, region, buffer);
  if (isa && has_fast_transform(*isa)) {
    if (auto planes = decode_sequential(decompressor, region, buffer, *isa)) return *planes;
  }
  return decode_raw(decompressor, region, buffer);
}

}  // namespace

Planes decode_planes(Bytes file, const Region& region, const DecodeOptions& options,
                     Buffer& buffer) {
  return decode_planes_with(usable_isa(), file, region, options, buffer);
}

Planes decode_planes_by_libjpeg(Bytes file, const Region& region, const DecodeOptions& options,
                                Buffer& buffer) {
  return decode_planes_with(std::nullopt, file, region, options, buffer);
}

RgbPicture decode_rgb(Bytes file, const DecodeOptions& options) {
  Decompressor decompressor(file, options);
  start(decompressor, options);
  const jpeg_decompress_struct& info = decompressor.info();
  RgbPicture picture{.width = info.image_width, .height = info.image_height};
  const int64_t stride = 3 * picture.width;
  picture.rgb.resize(static_cast<size_t>(stride * picture.height));
  read_rows(decompressor, picture.height,
            [&](int64_t y) { return picture.rgb.data() + y * stride; });
  return picture;
}

}  // namespace stretto::media::jpeg
