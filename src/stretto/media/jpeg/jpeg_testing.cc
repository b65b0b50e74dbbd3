#include "stretto/media/jpeg/jpeg_testing.h"

#include <random>

#include "stretto/media/jpeg/library.h"

namespace stretto::media::jpeg {
namespace {

constexpr uint8_t kExif[] = {'E', 'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
                             1,   0x12, 0,   3,   0, 0, 0,   1,   0, 6,  0, 0, 0, 0, 0, 0};

std::vector<uint8_t> make_pixels(const TestPicture& p, int channels) {
  std::mt19937 random(p.seed);
  std::vector<uint8_t> pixels(static_cast<size_t>(p.width) * p.height * channels);
  for (int y = 0; y < p.height; ++y) {
    for (int x = 0; x < p.width; ++x) {
      const bool inside = (x - p.width / 2) * (x - p.width / 2) + (y - p.height / 3) * (y - 9) <
                          p.width * p.height / 9;
      for (int c = 0; c < channels; ++c) {
        const int value = (c + 1) * x * 2 + (3 - c) * y + (inside ? 90 - 40 * c : 0) +
                          static_cast<int>(random() % 24);
        pixels[(static_cast<size_t>(y) * p.width + x) * channels + c] =
            static_cast<uint8_t>(value / 2 % 512 < 256 ? value / 2 % 256 : 255 - value / 2 % 256);
      }
    }
  }
  return pixels;
}

}  // namespace

std::vector<std::byte> make_jpeg(const TestPicture& p) {
  const bool four = p.colour == "cmyk" || p.colour == "ycck";
  const int channels = p.colour == "grey" ? 1 : four ? 4 : 3;
  const std::vector<uint8_t> pixels = make_pixels(p, channels);
  Compressor compressor;
  jpeg_compress_struct& info = compressor.info();
  compressor.run([&] {
    info.image_width = static_cast<JDIMENSION>(p.width);
    info.image_height = static_cast<JDIMENSION>(p.height);
    info.input_components = channels;
    info.in_color_space = four ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_colorspace(&info, p.colour == "grey"   ? JCS_GRAYSCALE
                               : p.colour == "rgb"  ? JCS_RGB
                               : p.colour == "cmyk" ? JCS_CMYK
                               : p.colour == "ycck" ? JCS_YCCK
                                                    : JCS_YCbCr);
    jpeg_set_quality(&info, p.quality, TRUE);
    for (int k = 0; k < info.num_components; ++k) {
      // The first one alone in YCC; K of YCCK is not subsampled either.
      info.comp_info[k].h_samp_factor = k == 0 || k == 3 ? p.h : 1;
      info.comp_info[k].v_samp_factor = k == 0 || k == 3 ? p.v : 1;
    }
    if (p.progressive) jpeg_simple_progression(&info);
    info.arith_code = p.arithmetic;
    info.restart_interval = static_cast<unsigned>(p.restart_interval);
    jpeg_start_compress(&info, TRUE);
    if (p.exif) jpeg_write_marker(&info, JPEG_APP0 + 1, kExif, sizeof kExif);
    for (int y = 0; y < p.height; ++y) {
      auto* row = const_cast<uint8_t*>(pixels.data()) + static_cast<size_t>(y) * p.width * channels;
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
  });
  return compressor.take_file();
}

std::vector<uint8_t> decode_repeated(Bytes file, int& components) {
  Decompressor decompressor(file, {});
  jpeg_decompress_struct& info = decompressor.info();
  decompressor.run([&] {
    jpeg_read_header(&info, TRUE);
    info.out_color_space = info.jpeg_color_space;
    info.do_fancy_upsampling = FALSE;
    jpeg_start_decompress(&info);
  });
  components = info.output_components;
  const size_t stride = static_cast<size_t>(info.output_width) * components;
  std::vector<uint8_t> pixels(stride * info.output_height);
  decompressor.run([&] {
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = pixels.data() + stride * info.output_scanline;
      jpeg_read_scanlines(&info, &row, 1);
    }
  });
  return pixels;
}

}  // namespace stretto::media::jpeg
