#include "stretto/media/png.h"

#include <png.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "stretto/base/error.h"
#include "stretto/media/guarded.h"
#include "stretto/media/jpeg/markers.h"

namespace stretto::media::png {
namespace {

constexpr const char* kName = "PNG data";
constexpr std::array<uint8_t, 8> kSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
// The signature and the chunk IHDR, which is the first one: 8 bytes of length and name, 13 of data.
constexpr size_t kHeaderBytes = 29;
// Of one chunk. Pixels are read piece by piece and have no such limit.
constexpr size_t kMaxChunkBytes = 16 << 20;
// Texts and palettes that are only suggested would be inflated and kept, one by one: none is.
constexpr int kKeptChunks = 1;  // libpng's way to say so
// libpng's own limit. One line of floats has to fit into memory many times over.
constexpr int64_t kMaxSide = 1'000'000;

uint32_t number(Bytes file, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(file[at + i]);
  return value;
}

// The orientation in the chunk eXIf, if it stands before the pixels.
int find_orientation(Bytes file) {
  size_t at = kSignature.size();
  while (file.size() - at >= 12) {
    const size_t length = number(file, at);
    if (length > file.size() - at - 12) return 1;
    const char* name = reinterpret_cast<const char*>(file.data()) + at + 4;
    if (std::memcmp(name, "eXIf", 4) == 0) {
      return jpeg::exif_orientation(file.subspan(at + 8, length));
    }
    if (std::memcmp(name, "IDAT", 4) == 0) return 1;
    at += 12 + length;
  }
  return 1;
}

// What libpng gets as its pointers: where it reads and where its errors go.
struct Session {
  Landing landing;
  Bytes file;
  size_t at = 0;
  char text[200] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit Session(Bytes bytes);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void leave(png_structp png, png_const_charp text) {
  auto* session = static_cast<Session*>(png_get_error_ptr(png));
  std::snprintf(session->text, sizeof session->text, "%s", text);
  std::longjmp(session->landing.jump, 1);
}

void ignore(png_structp, png_const_charp) {}

void read(png_structp png, png_bytep to, size_t count) {
  auto* session = static_cast<Session*>(png_get_io_ptr(png));
  if (count > session->file.size() - session->at) png_error(png, "the data ends early");
  std::memcpy(to, session->file.data() + session->at, count);
  session->at += count;
}

// libpng handles errors of these two calls itself.
Session::Session(Bytes bytes) : file(bytes) {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave, ignore);
  if (png != nullptr) info = png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    throw std::bad_alloc();
  }
}

void start(Session& session, const DecodeOptions& options) {
  png_set_read_fn(session.png, &session, read);
  png_set_chunk_malloc_max(session.png, kMaxChunkBytes);
  png_set_chunk_cache_max(session.png, kKeptChunks);
  const int64_t side = std::min(options.max_pixels, kMaxSide);
  png_set_user_limits(session.png, static_cast<png_uint_32>(side), static_cast<png_uint_32>(side));
  png_read_info(session.png, session.info);
}

bool is_grey16(const Session& session) {
  return png_get_color_type(session.png, session.info) == PNG_COLOR_TYPE_GRAY &&
         png_get_bit_depth(session.png, session.info) == 16;
}

// All other kinds to three bytes a pixel.
void set_transforms(Session& session) {
  png_set_expand(session.png);
  png_set_strip_16(session.png);
  png_set_strip_alpha(session.png);
  png_set_gray_to_rgb(session.png);
}

// In place, from the end: the first third of the rows holds two bytes a pixel.
void widen_grey16(uint8_t* rgb, int64_t count) {
  for (int64_t i = count; i-- > 0;) {
    const uint8_t high = rgb[2 * i], low = rgb[2 * i + 1];
    std::fill_n(rgb + 3 * i, 3, high == 0 ? low : uint8_t{255});
  }
}

// To the memory that `memory(info)` gives, once the file's header is found to be right. `indices`:
// one byte a pixel as it is stored, else three.
template <typename Memory>
void decode_to(Bytes file, const DecodeOptions& options, bool indices, const Memory& memory) {
  const PictureInfo info = png::read_info(file);
  check_size(info.width, info.height, options);
  std::vector<png_bytep> rows;
  Session session(file);
  bool grey16 = false;
  size_t row_bytes = 0;
  const auto check = [&](bool done) {
    if (!done) throw FormatError(kName, static_cast<int64_t>(session.at), session.text);
  };
  check(run_guarded(session.landing, [&] {
    start(session, options);
    grey16 = !indices && is_grey16(session);
    if (indices) {
      png_set_packing(session.png);
    } else if (!grey16) {
      set_transforms(session);
    }
    png_set_interlace_handling(session.png);
    png_read_update_info(session.png, session.info);
    row_bytes = png_get_rowbytes(session.png, session.info);
  }));
  const auto width = static_cast<size_t>(info.width), height = static_cast<size_t>(info.height);
  const size_t pixel_bytes = indices ? 1 : grey16 ? 2 : 3;
  STRETTO_CHECK(row_bytes == width * pixel_bytes, "png: a row of {} pixels has {} bytes", width,
                row_bytes);
  uint8_t* const rgb = memory(info);
  rows.resize(height);
  for (size_t y = 0; y < height; ++y) rows[y] = rgb + y * row_bytes;
  check(run_guarded(session.landing, [&] { png_read_image(session.png, rows.data()); }));
  if (grey16) widen_grey16(rgb, info.width * info.height);
}

size_t rgb_bytes(const PictureInfo& info) {
  return 3 * static_cast<size_t>(info.width) * static_cast<size_t>(info.height);
}

}  // namespace

bool is_png(Bytes file) {
  return file.size() >= kSignature.size() &&
         std::memcmp(file.data(), kSignature.data(), kSignature.size()) == 0;
}

PictureInfo read_info(Bytes file) {
  if (!is_png(file)) throw FormatError(kName, 0, "expected the signature of PNG");
  if (file.size() < kHeaderBytes || number(file, 8) != 13 ||
      std::memcmp(file.data() + 12, "IHDR", 4) != 0) {
    throw FormatError(kName, 8, "expected the chunk IHDR");
  }
  PictureInfo info{.format = Format::kPng, .width = number(file, 16), .height = number(file, 20)};
  info.bits = std::to_integer<int>(file[24]);
  const int colour = std::to_integer<int>(file[25]);
  switch (colour) {
    case PNG_COLOR_TYPE_GRAY:
      info.components = 1;
      break;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      info.components = 2;
      break;
    case PNG_COLOR_TYPE_RGB:
    case PNG_COLOR_TYPE_PALETTE:
      info.components = 3;
      break;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      info.components = 4;
      break;
    default:
      throw FormatError(kName, 25, fmt::format("expected a colour type, got {}", colour));
  }
  if (info.width < 1 || info.height < 1 || info.width > INT32_MAX || info.height > INT32_MAX) {
    throw FormatError(kName, 16,
                      fmt::format("expected a size, got {}x{}", info.width, info.height));
  }
  info.orientation = find_orientation(file);
  return info;
}

RgbPicture decode_rgb(Bytes file, const DecodeOptions& options) {
  RgbPicture picture;
  decode_to(file, options, false, [&](const PictureInfo& info) {
    picture = {.width = info.width, .height = info.height};
    picture.rgb.resize(rgb_bytes(info));
    return picture.rgb.data();
  });
  return picture;
}

Planes decode_planes(Bytes file, const DecodeOptions& options, Buffer& buffer) {
  Planes planes;
  decode_to(file, options, false, [&](const PictureInfo& info) {
    uint8_t* const rgb = buffer.get(rgb_bytes(info));
    planes = planes_of_rgb(rgb, info.width, info.height, 3 * info.width);
    return rgb;
  });
  return planes;
}

IndexPicture decode_indices(Bytes file, const DecodeOptions& options) {
  const PictureInfo info = png::read_info(file);
  const int colour = std::to_integer<int>(file[25]);
  if ((colour != PNG_COLOR_TYPE_GRAY && colour != PNG_COLOR_TYPE_PALETTE) || info.bits > 8) {
    throw_unsupported(
        "PNG: expected a grey or palette file of at most 8 bits, whose bytes are classes; got "
        "colour type {} of {} bits",
        colour, info.bits);
  }
  IndexPicture picture;
  decode_to(file, options, true, [&](const PictureInfo& found) {
    picture = {.width = found.width, .height = found.height, .index = {}};
    picture.index.resize(static_cast<size_t>(found.width) * static_cast<size_t>(found.height));
    return picture.index.data();
  });
  return picture;
}

}  // namespace stretto::media::png
