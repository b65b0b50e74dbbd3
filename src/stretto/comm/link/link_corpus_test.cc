// The seeds of the fuzzer, and what it has found.
#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/file.h"
#include "stretto/comm/link/link_script.h"

namespace stretto::comm {
namespace {

TEST(LinkCorpus, EveryScriptStaysWithinTheLimits) {
  int count = 0, done = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/link")) {
    SCOPED_TRACE(entry.path().filename().string());
    const std::string script = read_file(entry.path().string());
    const Findings findings =
        run_script(reinterpret_cast<const uint8_t*>(script.data()), script.size());
    EXPECT_LE(findings.peak_eager_bytes, static_cast<int64_t>(kEagerLimitBytes));
    EXPECT_EQ(findings.wrong, 0);
    done += findings.done;
    ++count;
  }
  EXPECT_GT(count, 10);
  EXPECT_GT(done, 2 * count) << "scripts that do nothing show nothing";
}

}  // namespace
}  // namespace stretto::comm
