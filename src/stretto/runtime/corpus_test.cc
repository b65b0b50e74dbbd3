// Every file of the fuzzers' corpora, so that what was found once stays fixed.
#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/file.h"
#include "stretto/runtime/artefact_file.h"
#include "stretto/runtime/load_and_run.h"
#include "stretto/runtime/optimize_any.h"

namespace stretto::runtime {
namespace {

TEST(ArtefactCorpus, EveryFileRunsOrIsRefused) {
  int ran = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/artefact")) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = read_file(entry.path().string());
    const auto view = std::as_bytes(std::span(bytes));
    std::vector<std::byte> file(view.begin(), view.end());
    repair_checksums(file);
    EXPECT_NO_THROW(ran += load_and_run(file) == Outcome::kRan);
  }
  EXPECT_GE(ran, 14);  // the seeds
}

TEST(OnnxCorpus, EveryFileRunsOrIsRefused) {
  int ran = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/onnx")) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = read_file(entry.path().string());
    EXPECT_NO_THROW(ran += optimize_and_run(std::as_bytes(std::span(bytes))) == Outcome::kRan);
  }
  EXPECT_GE(ran, 20);  // the seeds
}

}  // namespace
}  // namespace stretto::runtime
