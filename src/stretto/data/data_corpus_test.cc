// Every file of the fuzzer's corpus, so that what was found once stays fixed.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>
#include <span>

#include "stretto/base/file.h"
#include "stretto/data/data_fuzz.h"

namespace stretto::data {
namespace {

TEST(DataCorpus, EveryFileIsReadOrRefused) {
  std::set<char> read;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/data")) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = read_file(entry.path().string());
    EXPECT_NO_THROW({
      if (check_any_source(std::as_bytes(std::span(bytes)))) read.insert(bytes[0]);
    });
  }
  EXPECT_EQ(read, (std::set<char>{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'}));  // the seeds
}

TEST(DataCorpus, ChangedFilesAreReadOrRefused) {
  std::mt19937 random(11);  // the seed
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/data")) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = read_file(entry.path().string());
    for (int i = 0; i < 300; ++i) {
      std::string changed = bytes.substr(0, i % 3 == 0 ? 1 + random() % bytes.size() : bytes.npos);
      for (int k = 0; k < i % 4; ++k) {
        changed[random() % changed.size()] = static_cast<char>(random());
      }
      changed[0] = bytes[0];
      EXPECT_NO_THROW(check_any_source(std::as_bytes(std::span(changed))));
    }
  }
}

}  // namespace
}  // namespace stretto::data
