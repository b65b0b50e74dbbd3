// Every file of the fuzzer's corpus, so that what was found once stays fixed.
#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/file.h"
#include "stretto/ir/text_fuzz.h"

namespace stretto::ir {
namespace {

TEST(TextCorpus, EveryFileIsAGraphOrRefused) {
  int graphs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/text")) {
    SCOPED_TRACE(entry.path().string());
    EXPECT_NO_THROW(graphs += check_any_text(read_file(entry.path().string())));
  }
  EXPECT_GE(graphs, 10);  // the seeds
}

}  // namespace
}  // namespace stretto::ir
