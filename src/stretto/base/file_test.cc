#include "stretto/base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>

#include "stretto/base/error.h"

namespace stretto {
namespace {

// Pages of the map that are in memory of this process, from the kernel's own account.
int64_t mapped_pages(std::span<const std::byte> bytes) {
  const std::string maps = read_file("/proc/self/smaps");
  const std::string head = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(bytes.data()));
  const size_t at = maps.find(head);
  if (at == std::string::npos) return -1;
  const size_t rss = maps.find("Rss:", at);
  return std::stoll(maps.substr(rss + 4)) * 1024 / sysconf(_SC_PAGESIZE);
}

TEST(MappedFile, HoldsOnlyWhatIsRead) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const std::string path = std::filesystem::temp_directory_path() / "stretto-file-test";
  std::string content(64 * page + 100, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 / page + i);
  write_file(path, content);
  const auto file = MappedFile::open(path);
  std::filesystem::remove(path);
  const auto bytes = file->bytes();
  ASSERT_EQ(bytes.size(), content.size());
  EXPECT_EQ(mapped_pages(bytes), 0);

  const auto equal = [&] { return std::memcmp(bytes.data(), content.data(), bytes.size()) == 0; };
  EXPECT_TRUE(equal());
  EXPECT_EQ(mapped_pages(bytes), 65);
  // From the middle of page 2 to the middle of page 40: the pages between them go, content stays.
  file->let_go(bytes.subspan(2 * page + 10, 38 * page));
  EXPECT_EQ(mapped_pages(bytes), 65 - 37);
  file->let_go(bytes.subspan(50 * page + 1, 10));  // no whole page
  EXPECT_EQ(mapped_pages(bytes), 65 - 37);
  file->read_ahead(bytes.subspan(5 * page, page));
  EXPECT_TRUE(equal());
  file->let_go({});
  file->read_ahead({});
}

TEST(CheckWritable, ThrowsWhatWritingWouldAndLeavesNothing) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("stretto-check-writable-{}", ::getpid());
  const std::string inside = folder / "new" / "file";
  check_writable(inside);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "new"));
  write_file(inside, "kept");
  check_writable(inside);
  EXPECT_EQ(read_file(inside), "kept");

  const auto code_of = [](const std::string& path) {
    try {
      check_writable(path);
    } catch (const FormatError& error) {
      EXPECT_EQ(error.file(), path);
      return error.code();
    }
    return 0;
  };
  EXPECT_EQ(code_of(inside + "/below"), ENOTDIR);
  EXPECT_EQ(code_of(folder), EISDIR);
  EXPECT_EQ(code_of("/proc/nowhere/file"), ENOENT);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stretto
