#include "stretto/comm/link/fork.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stretto/comm/link/pipe.h"

namespace stretto::comm {
namespace {

// What a child that is forked now has of them, as an exit code.
template <typename Body>
int in_a_child(const Body& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(Fork, ChildrenCloseWhatTheyShallAndNothingElse) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd closes(ends[0]), stays(ends[1]);
  close_in_children(closes.get());
  EXPECT_EQ(in_a_child([&] { return is_open(closes.get()) * 2 + is_open(stays.get()); }), 1);
  EXPECT_TRUE(is_open(closes.get())) << "here";
  keep_in_children(closes.get());
  EXPECT_EQ(in_a_child([&] { return is_open(closes.get()) * 2 + is_open(stays.get()); }), 3);
}

TEST(Fork, ANumberThatIsTakenAgainIsNotClosed) {
  int number;
  {
    const Fd first(dup(STDERR_FILENO));
    number = first.get();
    close_in_children(number);
  }
  const Fd again(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, number));
  ASSERT_EQ(again.get(), number);
  EXPECT_EQ(in_a_child([&] { return is_open(number); }), 1);
}

TEST(Fork, ChildrenKnowThatTheyAre) {
  const uint64_t before = forks();
  EXPECT_EQ(in_a_child([&] { return static_cast<int>(forks() - before); }), 1);
  EXPECT_EQ(
      in_a_child([&] { return in_a_child([&] { return static_cast<int>(forks() - before); }); }),
      2);
  EXPECT_EQ(forks(), before);
}

}  // namespace
}  // namespace stretto::comm
