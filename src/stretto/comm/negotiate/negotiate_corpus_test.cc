// The seeds of the fuzzer, and what it has found.
#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/file.h"
#include "stretto/comm/negotiate/round_script.h"

namespace stretto::comm {
namespace {

TEST(NegotiateCorpus, NoScriptGivesAnImpossibleResult) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_CORPUS "/negotiate")) {
    SCOPED_TRACE(entry.path().filename().string());
    const std::string script = read_file(entry.path().string());
    RoundScript rounds(reinterpret_cast<const uint8_t*>(script.data()), script.size());
    EXPECT_TRUE(rounds.run());
    ++count;
  }
  EXPECT_GT(count, 5);
}

}  // namespace
}  // namespace stretto::comm
