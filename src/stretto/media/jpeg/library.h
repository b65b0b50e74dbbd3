// libjpeg-turbo's objects with owners, errors and limits. Only the sources of media/jpeg include
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs it
#include <cstdlib>
#include <string>

// After <cstdio>:
#include <jpeglib.h>

#include "stretto/media/guarded.h"
#include "stretto/media/picture.h"

namespace stretto::media::jpeg {

// Where errors and warnings of one libjpeg object go. `manager` is first: libjpeg hands out a
// pointer to it.
struct Errors {
  jpeg_error_mgr manager;
  Landing landing;
  bool allow_damaged = false;
  char text[JMSG_LENGTH_MAX] = "";
};

// A decompressor of `file`, whose headers are not read yet. Each picture gets one of its own:
// tables stay in an object from picture to picture, and a file without tables of its own would be
// decoded with those of the one before.
class Decompressor {
 public:
  Decompressor(Bytes file, const DecodeOptions& options);
  ~Decompressor();
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // Runs f, which calls libjpeg (see guarded.h). Throws FormatError with libjpeg's reason.
  template <typename F>
  void run(F&& f) {
    if (!run_guarded(errors_.landing, f)) fail();
  }

  jpeg_decompress_struct& info() { return info_; }

 private:
  [[noreturn]] void fail();

  Errors errors_;
  jpeg_progress_mgr progress_;
  jpeg_decompress_struct info_;
};

// A compressor that writes into memory of its own.
class Compressor {
 public:
  Compressor();
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  template <typename F>
  void run(F&& f) {
    if (!run_guarded(errors_.landing, f)) fail();
  }

  jpeg_compress_struct& info() { return info_; }
  // What was written, after jpeg_finish_compress().
  std::vector<std::byte> take_file();

 private:
  struct Destination {
    jpeg_destination_mgr manager;  // first, as in Errors
    uint8_t* data;
    size_t size;
  };
  static void start(j_compress_ptr info);
  static boolean grow(j_compress_ptr info);
  static void finish(j_compress_ptr info);
  [[noreturn]] void fail();

  Errors errors_;
  Destination destination_;
  jpeg_compress_struct info_;
};

}  // namespace stretto::media::jpeg
