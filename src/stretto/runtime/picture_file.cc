// The bytes of one picture's file. They are read, not mapped: a file that shrinks meanwhile is a
// damaged picture, and ends no process.
#include <filesystem>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/runtime/pictures.h"

namespace stretto::runtime {

Tensor read_picture_file(const std::string& path) {
  std::error_code unknown;  // read_file() says what is wrong with it
  const uintmax_t size = std::filesystem::file_size(path, unknown);
  if (!unknown && size > kLargestPictureFile) {
    throw FormatError(path, -1,
                      fmt::format("it has {} bytes, more than a picture may have ({})", size,
                                  kLargestPictureFile));
  }
  const auto bytes = std::make_shared<const std::string>(read_file(path));
  return {DType::kUInt8, {static_cast<int64_t>(bytes->size())}, bytes->data(), bytes};
}

}  // namespace stretto::runtime
