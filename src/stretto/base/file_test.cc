#include "stretto/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/fork_testing.h"
#include "stretto/base/interrupt.h"

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

class Writing : public ::testing::Test {
 protected:
  Writing() { std::filesystem::create_directories(folder_ / "sub"); }
  ~Writing() override { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return folder_ / name; }
  // Of what check_writable() and write_file() throw.
  int code_of(const std::string& path) const {
    const auto code = [&](auto&& f) {
      try {
        f();
      } catch (const FormatError& error) {
        EXPECT_EQ(error.file(), path);
        return error.code();
      }
      return 0;
    };
    const int checked = code([&] { check_writable(path); });
    EXPECT_EQ(code([&] { write_file(path, "x"); }), checked) << path;
    return checked;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("stretto-file-test-{}", ::getpid());
};

TEST_F(Writing, AFolderIsReadAsNoFile) { EXPECT_THROW(read_file(folder_.string()), FormatError); }

TEST_F(Writing, CheckingThrowsWhatWritingWouldAndLeavesNothing) {
  const std::string inside = path("sub/file");
  check_writable(inside);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "sub"));
  write_file(inside, "kept");
  check_writable(inside);
  EXPECT_EQ(read_file(inside), "kept");

  EXPECT_EQ(code_of(inside + "/below"), ENOTDIR);
  EXPECT_EQ(code_of(folder_), EISDIR);
  EXPECT_EQ(code_of("/proc/nowhere/file"), ENOENT);
}

TEST_F(Writing, AMissingFolderIsNamedAndNotMade) {
  EXPECT_EQ(code_of(path("typo/deep/file")), ENOENT);
  EXPECT_FALSE(std::filesystem::exists(path("typo")));
  try {
    write_file(path("typo/deep/file"), "x");
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("there is no folder " + path("typo/deep")),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Writing, ALinkStaysAndItsFileIsReplaced) {
  write_file(path("sub/file"), "old");
  std::filesystem::create_symlink("sub/file", path("link"));
  std::filesystem::create_symlink("link", path("second"));
  check_writable(path("second"));
  write_file(path("second"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("second")));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_FALSE(std::filesystem::is_symlink(path("sub/file")));
  EXPECT_EQ(read_file(path("sub/file")), "new");

  std::filesystem::create_symlink("sub/later", path("dangling"));
  write_file(path("dangling"), "made");
  EXPECT_TRUE(std::filesystem::is_symlink(path("dangling")));
  EXPECT_EQ(read_file(path("sub/later")), "made");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "sub"), {}), 2);
  std::filesystem::create_symlink("typo/file", path("astray"));
  EXPECT_EQ(code_of(path("astray")), ENOENT);
}

TEST_F(Writing, APipeIsWrittenToAndNotReplaced) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  check_writable(path("pipe"));  // does not wait for a reader
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  write_file(path("pipe"), "through");
  char got[16] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 7);
  EXPECT_STREQ(got, "through");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

TEST_F(Writing, AFileIsTheSameByEveryName) {
  write_file(path("sub/file"), "x");
  write_file(path("other"), "x");
  std::filesystem::create_symlink("sub/file", path("link"));
  std::filesystem::create_hard_link(path("sub/file"), path("hard"));
  std::filesystem::create_symlink("sub/later", path("dangling"));
  const auto same = [&](std::string_view a, std::string_view b) {
    return same_file(path(a), path(b));
  };
  EXPECT_TRUE(same("link", "sub/file") && same("hard", "link") && same("sub/../other", "other"));
  EXPECT_FALSE(same("other", "link") || same("other", "none") || same("none", "other"));
  EXPECT_TRUE(same("none", "sub/../none") && same("dangling", "sub/later"));
  EXPECT_FALSE(same("none", "nothing") || same("none", "sub/none"));
  EXPECT_TRUE(same_file("none", "./none") && same_file("none", std::filesystem::absolute("none")));
}

TEST(WriteFile, AnInterruptLeavesTheOldFileAndNoOther) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("stretto-interrupt-{}", getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder / "file", content(64 << 20, 'n');
  struct Enough {};
  const auto interrupted = [&] {
    const InterruptScope scope([] { throw Enough(); });
    try {
      // Some writes may end before check_interrupt() asks for the first time, after 50 ms.
      for (const double begin = now_s(); now_s() - begin < 60;) {
        write_file(path, "old");
        write_file(path, content);
      }
    } catch (const Enough&) {
      return true;
    }
    return false;
  };
  ASSERT_TRUE(interrupted());
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(WriteFile, ASignalThatEndsTheProcessLeavesNoPartOfAFile) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("stretto-signal-{}", getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder / "file";
  EXPECT_EQ(in_a_child([&] {
              const InterruptScope scope([] {
                remove_unfinished_files();
                _exit(7);
              });
              const std::string content(64 << 20, 'n');
              for (;;) write_file(path, content);
              return 0;
            }),
            7);
  std::filesystem::remove(path);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stretto
