// Every file of the fuzzer's corpus, so that what was found once stays fixed.
#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/file.h"
#include "stretto/import/onnx/onnx_fuzz.h"

namespace stretto::onnx {
namespace {

TEST(OnnxCorpus, EveryFileIsAModelOrRefused) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/onnx")) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = read_file(entry.path().string());
    EXPECT_NO_THROW(models += check_any_model(std::as_bytes(std::span(bytes))));
  }
  EXPECT_GE(models, 10);  // the seeds
}

}  // namespace
}  // namespace stretto::onnx
