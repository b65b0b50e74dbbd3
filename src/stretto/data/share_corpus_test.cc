// The seeds of the fuzzer, and what it has found.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "stretto/base/file.h"
#include "stretto/data/share_script.h"

namespace stretto::data {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> scripts() {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::directory_iterator(STRETTO_CORPUS "/share")) {
    all[entry.path().filename().string()] = read_file(entry.path().string());
  }
  return all;
}

ShareFindings run(const std::string& script) {
  return run_share_script(reinterpret_cast<const uint8_t*>(script.data()), script.size());
}

int64_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

TEST(ShareCorpus, EveryScriptEndsWithItsOtherEnd) {
  const int64_t before = open_files();
  int honest = 0;
  for (const auto& [name, script] : scripts()) {
    SCOPED_TRACE(name);
    const ShareFindings findings = run(script);
    EXPECT_TRUE(findings.ended);
    EXPECT_EQ(findings.wrong, 0);
    if (name.starts_with("honest") || name.starts_with("asked")) {
      ++honest;
      EXPECT_GE(findings.batches, 2);
    }
    EXPECT_EQ(open_files(), before);
  }
  EXPECT_GT(honest, 5);
}

// The first thing that is wrong ends the loader: nothing of it is handed on.
TEST(ShareCorpus, WrongBatchesAreNotHandedOn) {
  const auto all = scripts();
  for (const char* name :
       {"loaded_without_being_asked", "memory_too_short", "memory_not_sealed", "memory_is_a_pipe",
        "memory_is_a_folder", "memory_too_large", "no_memory", "many_boxes", "boxes_of_no_pictures",
        "slot_never_sent", "masks_beside_the_slot", "masks_between_elements",
        "shares_between_elements", "shares_of_many_classes", "large_pictures", "place_of_no_epoch",
        "neither_real_nor_padding", "no_reply", "half_a_reply"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(run(all.at(name)).batches, 0);
  }
}

TEST(ShareCorpus, ChangedScriptsEndToo) {
  std::mt19937 random(16);  // the seed
  const int64_t before = open_files();
  for (const auto& [name, script] : scripts()) {
    if (name == "stalls") continue;  // it is waited for
    SCOPED_TRACE(name);
    for (int i = 0; i < 12; ++i) {
      std::string changed = script.substr(0, 1 + random() % script.size());
      if (i % 2 == 0) changed = script;
      for (int k = 0; k <= i % 3; ++k) {
        changed[random() % changed.size()] = static_cast<char>(random());
      }
      const ShareFindings findings = run(changed);
      EXPECT_TRUE(findings.ended);
      EXPECT_EQ(findings.wrong, 0);
      EXPECT_EQ(open_files(), before);
    }
  }
}

}  // namespace
}  // namespace stretto::data
