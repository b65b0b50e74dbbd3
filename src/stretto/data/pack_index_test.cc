// An index of as many samples as ImageNet has: what opening it takes, whatever its length.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "stretto/base/file.h"
#include "stretto/data/data_testing.h"
#include "stretto/data/pack.h"
#include "stretto/data/pack_format.h"

namespace stretto::data {
namespace {

constexpr int64_t kImageNet = 1'300'000;

// Memory of this process alone that it asked for, in bytes; maps of files are not in it.
int64_t private_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return 1024 * std::stoll(line.substr(7));
  }
  return -1;
}

TEST(PackIndexOfMillions, IsOpenedWithoutBeingRead) {
  const TestFolder folder;
  folder.write("shard-00000.bin", "");
  {
    TableBuilder builder;
    std::string name;
    for (int64_t i = 0; i < kImageNet; ++i) {
      name = fmt::format("n{:08}/n{:08}_{}.JPEG", i / 1300, i / 1300, i % 1300);
      builder.add(name, {.offset = 0, .length = 1, .label = i / 1300, .width = 500, .height = 375});
    }
    const auto table = std::move(builder).take();
    write_pack_index(folder.path(), *table, std::vector<uint64_t>(kImageNet, 7), {{0}});
  }
  const int64_t before = private_bytes();
  const Dataset dataset = open_pack(folder.path());
  const int64_t after = private_bytes();
  ASSERT_EQ(dataset.size(), kImageNet);
  EXPECT_EQ(dataset.name(kImageNet - 1), "n00000999/n00000999_1299.JPEG");
  EXPECT_EQ(dataset.sample(kImageNet - 1).label, 999);
  // Its records alone have 73 MB. One that is longer costs no more, as nothing of it was looked at.
  if (before >= 0) {
    EXPECT_LT(after - before, 8 << 20);
  }
  // The columns were not read: damage is found where a sample is used, and by verify_pack().
  std::FILE* const file = std::fopen((folder.path() + "/index").c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  std::fseek(file, 192 + 56 * 1000 + 24, SEEK_SET);  // record 1000's name_end
  const uint64_t wrong = UINT64_MAX;
  std::fwrite(&wrong, sizeof wrong, 1, file);
  std::fclose(file);
  const Dataset damaged = open_pack(folder.path());
  EXPECT_EQ(damaged.name(5), "n00000000/n00000000_5.JPEG");
  EXPECT_TRUE(says(error_of<FormatError>([&] { damaged.name(1000); }), "of sample 1000"));
}

}  // namespace
}  // namespace stretto::data
