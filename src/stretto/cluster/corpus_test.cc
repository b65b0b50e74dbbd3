// Every file of the fuzzers' corpora, so that what was found once stays fixed.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>

#include "stretto/base/file.h"
#include "stretto/cluster/check_fuzz.h"
#include "stretto/cluster/site_fuzz.h"
#include "stretto/cluster/trace/trace_fuzz.h"

namespace stretto::cluster {
namespace {

// Calls `check` with each file and with changed copies of it.
template <typename Check>
void with_changes(const char* folder, Check check) {
  std::mt19937 random(7);  // the seed
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = read_file(entry.path().string());
    EXPECT_NO_THROW(check(bytes, true));
    for (int i = 0; i < 200; ++i) {
      std::string changed = bytes.substr(0, i % 3 == 0 ? 1 + random() % bytes.size() : bytes.npos);
      for (int k = 0; k < 1 + i % 4; ++k) {
        changed[random() % changed.size()] = bytes[random() % bytes.size()];
      }
      EXPECT_NO_THROW(check(changed, false)) << changed;
    }
  }
}

TEST(SiteCorpus, EveryFileIsASiteOrRefused) {
  int sites = 0;
  with_changes(STRETTO_CORPUS "/site", [&](const std::string& text, bool whole) {
    sites += check_any_site(text) && whole;
  });
  EXPECT_GE(sites, 4);  // the seeds
}

TEST(TraceCorpus, EveryFileIsATraceOrRefused) {
  std::set<std::string> formats;
  with_changes(STRETTO_CORPUS "/trace", [&](const std::string& text, bool whole) {
    const std::string format = check_any_trace(text);
    if (whole) formats.insert(format);
  });
  for (const TraceFormat& format : trace_formats()) {
    EXPECT_TRUE(formats.count(std::string(format.name))) << format.name;
  }
  EXPECT_TRUE(formats.count("throughputs"));
}

TEST(SchedulerCorpus, EveryAnswerIsComparedOrRefused) {
  int compared = 0;
  with_changes(STRETTO_CORPUS "/scheduler", [&](const std::string& text, bool whole) {
    compared += check_any_answer(text) && whole;
  });
  EXPECT_GE(compared, 2);  // the seeds
}

}  // namespace
}  // namespace stretto::cluster
