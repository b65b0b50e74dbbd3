// What the fuzzer has found, again.
#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/file.h"
#include "stretto/comm/link/link_script.h"

namespace stretto::comm {
namespace {

TEST(PeerCorpus, EveryScriptStaysWithinTheLimits) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/link")) {
    SCOPED_TRACE(entry.path().filename().string());
    const std::string script = read_file(entry.path().string());
    const int64_t kept = run_script(reinterpret_cast<const uint8_t*>(script.data()), script.size());
    EXPECT_LE(kept, static_cast<int64_t>(kEagerLimitBytes));
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace stretto::comm
