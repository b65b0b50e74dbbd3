#include "stretto/media/jpeg/transcode.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/media/jpeg/library.h"

namespace stretto::media::jpeg {
namespace {

constexpr int kMaxMarker = 0xFFFF;

// A marker that the compressor writes itself: JFIF and Adobe. A second one would contradict it.
bool is_written_anyway(const jpeg_compress_struct& info, const jpeg_marker_struct& marker) {
  const auto starts_with = [&](const char* text, size_t size) {
    return marker.data_length >= size && std::memcmp(marker.data, text, size) == 0;
  };
  return (marker.marker == JPEG_APP0 && info.write_JFIF_header && starts_with("JFIF\0", 5)) ||
         (marker.marker == JPEG_APP0 + 14 && info.write_Adobe_marker && starts_with("Adobe", 5));
}

// Reads the coefficients of all scans. `arrays` receives one per component.
void read_coefficients(Decompressor& from, const DecodeOptions& options,
                       jvirt_barray_ptr*& arrays) {
  jpeg_decompress_struct& info = from.info();
  from.run([&] {
    jpeg_save_markers(&info, JPEG_COM, kMaxMarker);
    for (int m = 0; m < 16; ++m) jpeg_save_markers(&info, JPEG_APP0 + m, kMaxMarker);
    jpeg_read_header(&info, TRUE);
  });
  check_size(info.image_width, info.image_height, options);
  from.run([&] { arrays = jpeg_read_coefficients(&info); });
  for (int k = 0; k < info.num_components; ++k) {
    if (info.comp_info[k].quant_table != nullptr) continue;
    throw FormatError("JPEG data", -1, fmt::format("component {} is in none of the scans", k));
  }
}

int64_t interval_of(const jpeg_decompress_struct& info) {
  // A scan of one component has an MCU per block, whatever its sampling factors are.
  if (info.num_components == 1) {
    return restart_interval_for(info.comp_info[0].width_in_blocks, DCTSIZE);
  }
  const int64_t width = static_cast<int64_t>(info.max_h_samp_factor) * DCTSIZE;
  return restart_interval_for((info.image_width + width - 1) / width, width);
}

void write_coefficients(Compressor& to, jpeg_decompress_struct& from, jvirt_barray_ptr* arrays) {
  jpeg_compress_struct& info = to.info();
  to.run([&] {
    jpeg_copy_critical_parameters(&from, &info);
    info.optimize_coding = TRUE;
    info.restart_interval = static_cast<unsigned>(interval_of(from));
    info.restart_in_rows = 0;
    jpeg_write_coefficients(&info, arrays);
    for (jpeg_saved_marker_ptr m = from.marker_list; m != nullptr; m = m->next) {
      if (is_written_anyway(info, *m)) continue;
      jpeg_write_marker(&info, m->marker, m->data, m->data_length);
    }
    jpeg_finish_compress(&info);
  });
}

// What differs between two files whose coefficients are read; nullptr: nothing.
const char* difference(const jpeg_decompress_struct& a, const jpeg_decompress_struct& b) {
  if (a.image_width != b.image_width || a.image_height != b.image_height) return "size";
  if (a.num_components != b.num_components || a.jpeg_color_space != b.jpeg_color_space) {
    return "colour";
  }
  for (int k = 0; k < a.num_components; ++k) {
    const jpeg_component_info &x = a.comp_info[k], &y = b.comp_info[k];
    if (x.h_samp_factor != y.h_samp_factor || x.v_samp_factor != y.v_samp_factor) return "sampling";
    if (x.quant_table == nullptr || y.quant_table == nullptr) return "quantisation";
    if (std::memcmp(x.quant_table->quantval, y.quant_table->quantval,
                    sizeof x.quant_table->quantval) != 0) {
      return "quantisation";
    }
  }
  return nullptr;
}

bool same_coefficients(Decompressor& a, jvirt_barray_ptr* x, Decompressor& b, jvirt_barray_ptr* y) {
  bool same = true;
  jpeg_decompress_struct &info = a.info(), &other = b.info();
  for (int k = 0; k < info.num_components && same; ++k) {
    const JDIMENSION rows = info.comp_info[k].height_in_blocks;
    const size_t bytes = info.comp_info[k].width_in_blocks * sizeof(JBLOCK);
    for (JDIMENSION row = 0; row < rows && same; ++row) {
      JBLOCKARRAY left = nullptr, right = nullptr;
      a.run([&] {
        left = info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&info), x[k], row, 1,
                                            FALSE);
      });
      b.run([&] {
        right = other.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&other), y[k], row, 1,
                                              FALSE);
      });
      same = std::memcmp(left[0], right[0], bytes) == 0;
    }
  }
  return same;
}

}  // namespace

int64_t restart_interval_for(int64_t mcus, int64_t mcu_width) {
  constexpr int64_t kPixels = 64, kLeast = 32, kMost = 128;
  int64_t best = mcus;
  for (int64_t count = 1; count < mcus && count * mcu_width <= kMost; ++count) {
    if (mcus % count != 0 || count * mcu_width < kLeast) continue;
    const auto distance = [&](int64_t n) { return std::abs(n * mcu_width - kPixels); };
    if (best == mcus || distance(count) < distance(best)) best = count;
  }
  return best;
}

std::vector<std::byte> transcode(Bytes file, const DecodeOptions& options) {
  Decompressor from(file, options);
  jvirt_barray_ptr* coefficients = nullptr;
  read_coefficients(from, options, coefficients);
  Compressor compressor;
  write_coefficients(compressor, from.info(), coefficients);
  std::vector<std::byte> written = compressor.take_file();

  Decompressor again(written, options);
  jvirt_barray_ptr* copies = nullptr;
  read_coefficients(again, options, copies);
  const char* what = difference(from.info(), again.info());
  if (what == nullptr && !same_coefficients(from, coefficients, again, copies)) {
    what = "coefficients";
  }
  STRETTO_CHECK(what == nullptr, "transcode: the {} of the written JPEG file differ", what);
  return written;
}

}  // namespace stretto::media::jpeg
