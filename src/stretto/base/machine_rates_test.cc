#include "stretto/base/machine_rates.h"

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
class KeptRates : public testing::Test {
 protected:
  KeptRates() : folder_(fs::path(testing::TempDir()) / "machine_rates_test") {
    if (const char* value = std::getenv("STRETTO_CACHE_DIR")) before_ = value;
    fs::remove_all(folder_);
    setenv("STRETTO_CACHE_DIR", folder_.c_str(), 1);
  }
  ~KeptRates() override {
    fs::remove_all(folder_);
    before_ ? setenv("STRETTO_CACHE_DIR", before_->c_str(), 1) : unsetenv("STRETTO_CACHE_DIR");
  }

  std::string text() const { return read_file(machine_rates_file()); }

  const fs::path folder_;
  std::optional<std::string> before_;
};

const std::string kHeader = "stretto-machine-rates 2\n";
const std::string kElsewhere = "Another processor\t4\t0\t10\t20\t5\n";

std::string here(const std::string& rates) {
  const CpuInfo& cpu = cpu_info();
  return cpu.model + "\t" + std::to_string(cpu.cores) + "\t" + std::to_string(cpu.l3_bytes) + "\t" +
         rates + "\n";
}

// As many peaks as this processor has instruction sets.
std::string peaks(const std::string& each) {
  std::string text;
  for (size_t i = 0; i < kIsas.size() && kIsas[i] <= cpu_info().isa; ++i) text += each + "\t";
  return text;
}

TEST_F(KeptRates, AreMeasuredAndKept) {
  const MachineRates rates = refresh_machine_rates();
  EXPECT_GT(rates.memory.one, 1e8);
  EXPECT_LT(rates.memory.one, 1e12);
  EXPECT_GE(rates.memory.together, rates.memory.one);
  for (size_t i = 0; i < kIsas.size(); ++i) {
    if (kIsas[i] <= cpu_info().isa) {
      EXPECT_GT(rates.peaks[i], 1e8);
      EXPECT_LT(rates.peaks[i], 1e13);
    } else {
      EXPECT_EQ(rates.peaks[i], 0);
    }
  }
  EXPECT_TRUE(text().starts_with(kHeader + cpu_info().model + "\t")) << text();
}

#if defined(__x86_64__)
// Sums that the compiler keeps in memory once hid half of it.
TEST_F(KeptRates, ThePeakOfWiderVectorsIsHigher) {
  if (cpu_info().isa == Isa::kPortable) GTEST_SKIP() << "no vectors wider than the baseline's";
  MachineRates rates;
  for (int i = 0; i < 5; ++i) rates = refresh_machine_rates();
  EXPECT_GT(rates.peaks[1], 1.5 * rates.peaks[0]);
}
#endif

TEST_F(KeptRates, TheFasterOneStays) {
  fs::create_directories(folder_);
  const std::string fast = kHeader + kElsewhere +
                           here("7000000000000\t8000000000000\t" + peaks("9000000000000000") + "5");
  write_file(machine_rates_file(), fast);
  const MachineRates rates = refresh_machine_rates();
  EXPECT_EQ(rates.memory.one, 7e12);
  EXPECT_EQ(rates.memory.together, 8e12);
  EXPECT_EQ(rates.peaks.front(), 9e15);
  EXPECT_EQ(text(), fast);
  write_file(machine_rates_file(), kHeader + here("10\t20\t" + peaks("30") + "1") + kElsewhere);
  EXPECT_GT(refresh_machine_rates().memory.one, 20);
  EXPECT_GT(refresh_machine_rates().peaks.front(), 30);
  EXPECT_TRUE(text().starts_with(kHeader + kElsewhere + cpu_info().model)) << text();
  EXPECT_TRUE(text().ends_with("\t3\n")) << "measured three times: " << text();
}

TEST_F(KeptRates, DamagedFilesAreReplaced) {
  fs::create_directories(folder_);
  const std::string good = peaks("7e20");
  for (const std::string& damaged :
       {std::string("nonsense"), std::string(), kHeader + here("fast\t1\t" + good + "1"),
        kHeader + here("-1\t1\t" + good + "1"), kHeader + here("1e400\t2\t" + good + "1"),
        kHeader + here("nan\tinf\t" + good + "1"), kHeader + here("7e20\t7e20"),
        kHeader + here("7e20\t7e20\t" + good), kHeader + here("7e20\t7e20\t" + peaks("-1") + "5"),
        kHeader + here("7e20\t7e20\t" + good + "7\t8"),
        std::string("stretto-machine-rates 0\n") + here("7e20\t8e20\t" + good + "5")}) {
    write_file(machine_rates_file(), damaged);
    EXPECT_LT(refresh_machine_rates().memory.one, 1e12) << damaged;
    EXPECT_TRUE(text().starts_with(kHeader + cpu_info().model)) << text();
  }
}

TEST_F(KeptRates, NoPlaceForTheFileIsNoError) {
  write_file(folder_, "a file where the folder should be");
  EXPECT_GT(refresh_machine_rates().memory.one, 1e8);
}

// The first of this process that asks for it.
TEST_F(KeptRates, ALoadedModelDoesNotWaitForIt) {
  {
    const WithoutMeasuring guard;
    EXPECT_GT(machine_rates().memory.one, 0);
    EXPECT_GT(peak_flops(cpu_info().isa), 1e8);
    EXPECT_FALSE(fs::exists(machine_rates_file()));
  }
  EXPECT_GT(machine_rates().memory.one, 0);
  EXPECT_TRUE(fs::exists(machine_rates_file()));
}

TEST_F(KeptRates, ThreadsShareMemory) {
  EXPECT_EQ(stream_bytes_per_second(1), machine_rates().memory.one);
  EXPECT_LE(stream_bytes_per_second(2), machine_rates().memory.one);
  EXPECT_LE(2 * stream_bytes_per_second(2), machine_rates().memory.together);
  EXPECT_GE(2 * stream_bytes_per_second(2), machine_rates().memory.one * 0.69);
}

}  // namespace
}  // namespace stretto
