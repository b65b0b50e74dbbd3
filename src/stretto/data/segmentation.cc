#include "stretto/data/segmentation.h"

#include <unistd.h>

#include <string_view>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/folder.h"
#include "stretto/data/index.h"

namespace stretto::data {
namespace {

constexpr std::string_view kImages = "images", kMasks = "masks";

}  // namespace

bool is_segmentation(const std::string& source) {
  return is_folder(fmt::format("{}/{}", source, kImages)) &&
         is_folder(fmt::format("{}/{}", source, kMasks));
}

std::string mask_name(std::string_view picture) {
  std::string_view below = picture.substr(std::min(kImages.size(), picture.size()));
  below = below.substr(0, below.rfind('.'));
  return fmt::format("{}{}.png", kMasks, below);
}

Dataset open_segmentation(const std::string& source) {
  const Dataset pictures = open_folder(fmt::format("{}/{}", source, kImages));
  TableBuilder builder;
  builder.table().source = source;
  builder.table().kind = "segmentation";
  builder.table().one_file_each_below = source;
  builder.table().masks_beside = true;
  for (int64_t i = 0; i < pictures.size(); ++i) {
    check_interrupt();
    const std::string name = fmt::format("{}/{}", kImages, pictures.name(i));
    const std::string mask = mask_name(name);
    if (::access(fmt::format("{}/{}", source, mask).c_str(), F_OK) != 0) {
      throw FormatError(fmt::format("{}/{}", source, name), -1,
                        fmt::format("expected its label map at {}/{}", source, mask));
    }
    builder.add(name, {});
  }
  return Dataset(std::move(builder).take());
}

}  // namespace stretto::data
