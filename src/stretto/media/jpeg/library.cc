#include "stretto/media/jpeg/library.h"

#include <jerror.h>

#include <algorithm>
#include <new>

#include "stretto/base/error.h"

namespace stretto::media::jpeg {
namespace {

// A progressive file can name thousands of scans over the whole picture in a few bytes each. The
// encoders in use write about ten.
constexpr int kMaxScans = 100;

// What libjpeg may take for one picture: coefficients of progressive files are 2 bytes for each
// sample of up to four components, and a few rows come on top.
constexpr int64_t kBytesPerPixel = 10, kOtherBytes = 64 << 20;

void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  errors->manager.format_message(info, errors->text);
  std::longjmp(errors->landing.jump, 1);
}

// Level -1 is a warning: the data is damaged. Others are for people who watch.
void hear(j_common_ptr info, int level) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  if (level >= 0) return;
  if (!errors->allow_damaged) leave(info);
  ++errors->manager.num_warnings;
}

void print_nothing(j_common_ptr) {}

void count_scans(j_common_ptr info) {
  if (!info->is_decompressor) return;
  auto* decompressor = reinterpret_cast<j_decompress_ptr>(info);
  if (decompressor->input_scan_number <= kMaxScans) return;
  auto* errors = reinterpret_cast<Errors*>(info->err);
  std::snprintf(errors->text, sizeof errors->text, "more than %d scans", kMaxScans);
  std::longjmp(errors->landing.jump, 1);
}

jpeg_error_mgr* set_errors(Errors& errors, bool allow_damaged) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = leave;
  errors.manager.emit_message = hear;
  errors.manager.output_message = print_nothing;
  errors.allow_damaged = allow_damaged;
  return &errors.manager;
}

int64_t memory_limit(int64_t max_pixels) {
  constexpr int64_t kMost = INT64_MAX / 2;
  return max_pixels > kMost / kBytesPerPixel ? kMost : max_pixels * kBytesPerPixel + kOtherBytes;
}

}  // namespace

Decompressor::Decompressor(Bytes file, const DecodeOptions& options) {
  info_.err = set_errors(errors_, options.allow_damaged);
  progress_ = {};
  progress_.progress_monitor = count_scans;
  bool created = false;
  if (!run_guarded(errors_.landing, [&] {
        jpeg_create_decompress(&info_);
        created = true;
        info_.progress = &progress_;
        info_.mem->max_memory_to_use = static_cast<long>(memory_limit(options.max_pixels));
        jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()),
                     static_cast<unsigned long>(file.size()));
      })) {
    if (created) jpeg_destroy_decompress(&info_);
    fail();
  }
}

Decompressor::~Decompressor() { jpeg_destroy_decompress(&info_); }

void Decompressor::fail() {
  if (errors_.manager.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  if (errors_.manager.msg_code == JERR_NO_BACKING_STORE) {
    throw_unsupported(
        "JPEG data: decoding needs more memory than max_pixels allows; raise it if the file can be "
        "trusted");
  }
  throw FormatError("JPEG data", -1, errors_.text);
}

Compressor::Compressor() {
  destination_ = {};
  info_.err = set_errors(errors_, false);
  bool created = false;
  if (!run_guarded(errors_.landing, [&] {
        jpeg_create_compress(&info_);
        created = true;
        destination_.manager.init_destination = start;
        destination_.manager.empty_output_buffer = grow;
        destination_.manager.term_destination = finish;
        info_.dest = &destination_.manager;
      })) {
    if (created) jpeg_destroy_compress(&info_);
    fail();
  }
}

Compressor::~Compressor() {
  jpeg_destroy_compress(&info_);
  std::free(destination_.data);
}

void Compressor::fail() {
  if (errors_.manager.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  throw FormatError("JPEG data", -1, errors_.text);
}

void Compressor::start(j_compress_ptr info) {
  reinterpret_cast<Destination*>(info->dest)->size = 0;
  grow(info);
}

// libjpeg calls it when all that was there is written.
boolean Compressor::grow(j_compress_ptr info) {
  auto* out = reinterpret_cast<Destination*>(info->dest);
  const size_t written = out->size, size = std::max<size_t>(2 * written, 64 << 10);
  auto* data = static_cast<uint8_t*>(std::realloc(out->data, size));
  if (data == nullptr) {
    ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
    return FALSE;
  }
  out->data = data;
  out->size = size;
  out->manager.next_output_byte = data + written;
  out->manager.free_in_buffer = size - written;
  return TRUE;
}

void Compressor::finish(j_compress_ptr info) {
  auto* out = reinterpret_cast<Destination*>(info->dest);
  out->size -= out->manager.free_in_buffer;
}

std::vector<std::byte> Compressor::take_file() {
  const auto* begin = reinterpret_cast<const std::byte*>(destination_.data);
  return {begin, begin + destination_.size};
}

}  // namespace stretto::media::jpeg
