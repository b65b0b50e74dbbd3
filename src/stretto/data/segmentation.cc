#include "stretto/data/segmentation.h"

#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/folder.h"
#include "stretto/data/index.h"

namespace stretto::data {
namespace {

constexpr std::string_view kImages = "images", kMasks = "masks";

// At any depth.
bool holds_picture(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code problem;
  const auto skip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(folder, skip, problem), end; !problem && at != end;
       at.increment(problem)) {
    if (is_picture_name(at->path().filename().string())) return true;
  }
  return false;
}

}  // namespace

bool is_segmentation(const std::string& source) {
  if (!is_folder(fmt::format("{}/{}", source, kImages)) ||
      !is_folder(fmt::format("{}/{}", source, kMasks))) {
    return false;
  }
  // Else they are classes.
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(source, problem)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name == kImages || name == kMasks) continue;
    if (is_folder(entry.path().string()) && holds_picture(entry.path().string())) return false;
  }
  return true;
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
                        fmt::format("expected its label map at {}/{}; where the folders images and "
                                    "masks are classes, kind \"folder\" reads them",
                                    source, mask));
    }
    builder.add(name, {});
  }
  return Dataset(std::move(builder).take());
}

}  // namespace stretto::data
