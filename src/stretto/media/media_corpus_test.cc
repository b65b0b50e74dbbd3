// Every file of the fuzzer's corpus, so that what was found once stays fixed.
#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/file.h"
#include "stretto/media/media_fuzz.h"

namespace stretto::media {
namespace {

TEST(MediaCorpus, EveryFileIsAPictureOrRefused) {
  int pictures = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/media")) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = read_file(entry.path().string());
    EXPECT_NO_THROW(pictures += check_any_picture(std::as_bytes(std::span(bytes))));
  }
  EXPECT_GE(pictures, 16);  // the seeds
}

}  // namespace
}  // namespace stretto::media
