#include "stretto/data/reader.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/data/loader_testing.h"
#include "stretto/data/sample_bytes.h"

namespace stretto::data {
namespace {

std::string text_of(media::Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Dataset one_record(const TestFolder& folder, const Record& record) {
  TableBuilder builder;
  builder.add("member", record);
  builder.table().source = folder.path();
  builder.table().containers = {folder.path("shard")};
  return Dataset(std::move(builder).take());
}

TEST(Reader, FilesOfAFolderThatChangeAreErrors) {
  namespace fs = std::filesystem;
  const TestFolder folder;
  for (const char* name : {"longer.jpg", "newer.jpg", "same.jpg"}) folder.write(name, "0123");
  Reader reader(open_dataset(folder.path()));
  media::Buffer buffer;
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(text_of(reader.read(i, buffer).file), "0123");
  const auto time = fs::last_write_time(folder.path("longer.jpg"));
  folder.write("longer.jpg", "01234");
  fs::last_write_time(folder.path("longer.jpg"), time);
  fs::last_write_time(folder.path("newer.jpg"), time + std::chrono::seconds(1));
  for (const int64_t i : {0, 1}) {
    EXPECT_EQ(error_of<FormatError>([&] { reader.read(i, buffer); }),
              reader.label(i) + ": the file was changed or replaced since it was read first");
  }
  EXPECT_EQ(text_of(reader.read(2, buffer).file), "0123");
  Reader another(open_dataset(folder.path()));
  EXPECT_EQ(text_of(another.read(0, buffer).file), "01234");
}

// Of a sparse file, which costs whoever made it nothing.
TEST(Reader, DetailsOfAnyLengthAreNotRead) {
  const TestFolder folder;
  folder.write("shard", "0123");
  std::filesystem::resize_file(folder.path("shard"), 300 << 20);
  const Dataset dataset = one_record(folder, {.length = 4, .details_bytes = 299u << 20});
  Reader reader(dataset);
  media::Buffer buffer;
  for (const bool id_alone : {false, true}) {
    EXPECT_TRUE(says(error_of<FormatError>([&] { reader.read_details(0, buffer, id_alone); }),
                     "details have 313524224 bytes, expected at most 67108864"));
  }
  EXPECT_TRUE(says(error_of<FormatError>([&] { read_details(dataset, 0); }), "at most 67108864"));
  Reader another(one_record(folder, {.length = 4, .details_bytes = 64}));
  EXPECT_EQ(another.read_details(0, buffer).size(), 64);
  EXPECT_EQ(another.read_details(0, buffer, true).size(), 11);
}

// More shards than a reader keeps open: it knows those that it closed.
TEST(Reader, ShardsThatChangeWhileTheyAreClosedAreErrors) {
  namespace fs = std::filesystem;
  constexpr int kShards = 2 * Reader::kOpenFiles;
  const TestFolder folder;
  TableBuilder builder;
  for (uint32_t i = 0; i < kShards; ++i) {
    builder.table().containers.push_back(folder.write(fmt::format("shard{}", i), "0123"));
    builder.add(fmt::format("{}", i), {.length = 4, .container = i});
  }
  builder.table().source = folder.path();
  Reader reader(Dataset(std::move(builder).take()));
  media::Buffer buffer;
  for (int64_t i = 0; i < kShards; ++i) reader.read(i, buffer);
  // Copied as a mount shows it that gives other numbers: the same bytes and time.
  const std::string same = folder.path("shard0"), other = folder.path("shard1");
  const auto time = fs::last_write_time(same);
  fs::remove(same);
  folder.write("shard0", "0123");
  fs::last_write_time(same, time);
  fs::last_write_time(other, time + std::chrono::seconds(1));
  EXPECT_EQ(text_of(reader.read(0, buffer).file), "0123");
  EXPECT_EQ(error_of<FormatError>([&] { reader.read(1, buffer); }),
            other + ": sample 1: the file was changed or replaced since it was read first");
}

TEST(Reader, ADamagedNameHidesNoError) {
  const TestFolder folder;
  folder.write("shard", "0123456789");
  std::vector<Record> records{{.offset = 4, .length = 7, .name_end = 99}};
  Dataset::Table table;
  table.source = folder.path();
  table.containers = {folder.path("shard")};
  table.records = records;
  Reader reader(Dataset(std::make_shared<const Dataset::Table>(table)));
  media::Buffer buffer;
  EXPECT_EQ(error_of<FormatError>([&] { reader.read(0, buffer); }),
            folder.path("shard") +
                ": sample 0: the file ends at byte 10; expected the sample at 4 to 11");
}

TEST(Reader, GivesTheTableAndTheFile) {
  const TestFolder folder;
  folder.write("shard", "....TABLEpicture....");
  Reader reader(one_record(folder, {.offset = 9, .length = 7, .restart_bytes = 5}));
  media::Buffer buffer;
  reader.will_read(0, {.details = true});
  const Encoded e = reader.read(0, buffer);
  EXPECT_EQ(text_of(e.restarts), "TABLE");
  EXPECT_EQ(text_of(e.file), "picture");
  EXPECT_EQ(reader.label(0), folder.path("shard") + ": sample member");
}

TEST(Reader, ReadsAFileOfItsOwnUpToItsEnd) {
  const TestFolder folder;
  folder.write("1.jpg", "0123456789");
  TableBuilder builder;
  builder.add("1.jpg", {});
  builder.table().source = builder.table().one_file_each_below = folder.path();
  Reader reader(Dataset(std::move(builder).take()));
  media::Buffer buffer;
  EXPECT_EQ(text_of(reader.read(0, buffer).file), "0123456789");
}

TEST(Reader, NumbersThatCannotBeAreErrors) {
  const TestFolder folder;
  folder.write("shard", "0123456789");
  media::Buffer buffer;
  const auto problem = [&](const Record& record) {
    Reader reader(one_record(folder, record));
    reader.will_read(0, {.details = true});  // says nothing
    return error_of<FormatError>([&] { reader.read(0, buffer); });
  };
  const std::string before = folder.path("shard") + ": sample member: ";
  EXPECT_EQ(problem({.offset = 11, .length = 1}),
            before + "the file ends at byte 10; expected the sample at 11 to 12");
  EXPECT_TRUE(says(problem({.offset = 4}), "its index is damaged: the length of sample 0"));
  EXPECT_EQ(problem({.offset = 4, .length = 7}),
            before + "the file ends at byte 10; expected the sample at 4 to 11");
  EXPECT_TRUE(says(problem({.offset = 4, .length = UINT64_MAX - 4}), "the file ends at byte 10"));
  EXPECT_TRUE(says(problem({.offset = 4, .length = UINT64_MAX}), "its index is damaged"));
  EXPECT_TRUE(
      says(problem({.offset = 4, .length = 1, .restart_bytes = 5}), "its index is damaged"));
  // Two GiB that take no room on the disk.
  std::filesystem::resize_file(folder.path("shard"), uint64_t{2} << 30);
  EXPECT_EQ(problem({.length = uint64_t{2} << 30}),
            before + "it has 2147483648 bytes, expected at most 1073741824");
}

}  // namespace
}  // namespace stretto::data
