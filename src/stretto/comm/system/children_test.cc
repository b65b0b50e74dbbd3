#include "stretto/comm/system/children.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "stretto/base/fork_testing.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(CloseInChildren, ChildrenCloseWhatTheyShallAndNothingElse) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd closes(ends[0]), stays(ends[1]);
  close_in_children(closes.get());
  EXPECT_EQ(in_a_child([&] { return is_open(closes.get()) * 2 + is_open(stays.get()); }), 1);
  EXPECT_TRUE(is_open(closes.get())) << "here";
  keep_in_children(closes.get());
  EXPECT_EQ(in_a_child([&] { return is_open(closes.get()) * 2 + is_open(stays.get()); }), 3);
}

TEST(CloseInChildren, ANumberThatIsTakenAgainIsNotClosed) {
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

}  // namespace
}  // namespace stretto::comm
