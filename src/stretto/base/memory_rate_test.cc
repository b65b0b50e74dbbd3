#include "stretto/base/memory_rate.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "stretto/base/cpu.h"
#include "stretto/base/file.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

// An empty folder for what is kept between runs.
class KeptRate : public testing::Test {
 protected:
  KeptRate() : folder_(fs::path(testing::TempDir()) / "memory_rate_test") {
    if (const char* value = std::getenv("STRETTO_CACHE_DIR")) before_ = value;
    fs::remove_all(folder_);
    setenv("STRETTO_CACHE_DIR", folder_.c_str(), 1);
  }
  ~KeptRate() override {
    fs::remove_all(folder_);
    before_ ? setenv("STRETTO_CACHE_DIR", before_->c_str(), 1) : unsetenv("STRETTO_CACHE_DIR");
  }

  std::string text() const { return read_file(memory_rate_file()); }

  const fs::path folder_;
  std::optional<std::string> before_;
};

const std::string kHeader = "stretto-memory-rate 2\n";
const std::string kElsewhere = "Another processor\t4\t0\t10\t20\t5\n";

std::string here(const std::string& rates) {
  const CpuInfo& cpu = cpu_info();
  return cpu.model + "\t" + std::to_string(cpu.cores) + "\t" + std::to_string(cpu.l3_bytes) + "\t" +
         rates + "\n";
}

TEST_F(KeptRate, IsMeasuredAndKept) {
  const MemoryRate rate = refresh_memory_rate();
  EXPECT_GT(rate.one, 1e8);
  EXPECT_LT(rate.one, 1e12);
  EXPECT_GE(rate.together, rate.one);
  EXPECT_TRUE(text().starts_with(kHeader + cpu_info().model + "\t")) << text();
}

TEST_F(KeptRate, TheFasterOneStays) {
  fs::create_directories(folder_);
  const std::string fast = kHeader + kElsewhere + here("7000000000000\t8000000000000\t5");
  write_file(memory_rate_file(), fast);
  const MemoryRate rate = refresh_memory_rate();
  EXPECT_EQ(rate.one, 7e12);
  EXPECT_EQ(rate.together, 8e12);
  EXPECT_EQ(text(), fast);
  write_file(memory_rate_file(), kHeader + here("10\t20\t1") + kElsewhere);
  EXPECT_GT(refresh_memory_rate().one, 20);
  EXPECT_TRUE(text().starts_with(kHeader + kElsewhere + cpu_info().model)) << text();
  EXPECT_TRUE(text().ends_with("\t2\n")) << "measured twice: " << text();
}

TEST_F(KeptRate, DamagedFilesAreReplaced) {
  fs::create_directories(folder_);
  for (const std::string& damaged :
       {std::string("nonsense"), std::string(), kHeader + here("fast\t1\t1"),
        kHeader + here("-1\t1\t1"), kHeader + here("1e400\t2\t1"), kHeader + here("nan\tinf\t1"),
        kHeader + here("7e20\t7e20"), kHeader + here("7e20\t7e20\t7\t8"),
        std::string("stretto-memory-rate 1\n") + here("7e20\t8e20\t5")}) {
    write_file(memory_rate_file(), damaged);
    EXPECT_LT(refresh_memory_rate().one, 1e12) << damaged;
    EXPECT_TRUE(text().starts_with(kHeader + cpu_info().model)) << text();
  }
}

TEST_F(KeptRate, NoPlaceForTheFileIsNoError) {
  write_file(folder_, "a file where the folder should be");
  EXPECT_GT(refresh_memory_rate().one, 1e8);
}

// The first of this process that asks for it.
TEST_F(KeptRate, ALoadedModelDoesNotWaitForIt) {
  {
    const WithoutMeasuring guard;
    EXPECT_GT(memory_rate().one, 0);
    EXPECT_FALSE(fs::exists(memory_rate_file()));
  }
  EXPECT_GT(memory_rate().one, 0);
  EXPECT_TRUE(fs::exists(memory_rate_file()));
}

TEST_F(KeptRate, ThreadsShareIt) {
  EXPECT_EQ(stream_bytes_per_second(1), memory_rate().one);
  EXPECT_LE(stream_bytes_per_second(2), memory_rate().one);
  EXPECT_GE(2 * stream_bytes_per_second(2), memory_rate().one * 0.99);
}

}  // namespace
}  // namespace stretto
