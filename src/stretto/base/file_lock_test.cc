#include "stretto/base/file_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

namespace stretto {
namespace {

class FileLockTest : public ::testing::Test {
 protected:
  std::string path_ =
      std::filesystem::temp_directory_path() / ("stretto_lock_test_" + std::to_string(getpid()));
  ~FileLockTest() override { std::filesystem::remove(path_); }
};

TEST_F(FileLockTest, OneHolderAtATime) {
  {
    const FileLock first(path_, 0);
    ASSERT_TRUE(first.held()) << first.problem();
    const FileLock second(path_, 0.01);
    EXPECT_FALSE(second.held());
    EXPECT_NE(second.problem().find(path_), std::string::npos) << second.problem();
  }
  EXPECT_TRUE(FileLock(path_, 0).held());
}

TEST_F(FileLockTest, AForkedChildDoesNotKeepIt) {
  int talk[2];
  ASSERT_EQ(pipe(talk), 0);
  pid_t child = -1;
  {
    const FileLock lock(path_, 0);
    ASSERT_TRUE(lock.held());
    child = fork();
    if (child == 0) {
      char byte;
      const ssize_t got = read(talk[0], &byte, 1);  // lives on with the descriptor
      _exit(got == 1 ? 0 : 1);
    }
  }
  EXPECT_TRUE(FileLock(path_, 0).held());
  ASSERT_EQ(write(talk[1], "x", 1), 1);
  close(talk[0]);
  close(talk[1]);
}

TEST_F(FileLockTest, AFolderThatIsMissingIsSaid) {
  const FileLock lock("/nonexistent/folder/lock", 0);
  EXPECT_FALSE(lock.held());
  EXPECT_NE(lock.problem().find("/nonexistent/folder/lock"), std::string::npos);
}

}  // namespace
}  // namespace stretto
