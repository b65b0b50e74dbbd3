#include "stretto/comm/link/shm.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace stretto::comm {
namespace {

// Its creator writes and leaves before the other side has begun.
TEST(Shm, WhatARankWroteBeforeItLeftArrives) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  Fd first(fds[0]), second(fds[1]);
  std::string reason, text = "goodbye", got(text.size(), ' ');
  {
    const auto creator = shm_pipe(std::move(first), true, &reason);
    ASSERT_NE(creator, nullptr) << reason;
    const iovec part{text.data(), text.size()};
    EXPECT_EQ(creator->write({&part, 1}), static_cast<int64_t>(text.size()));
  }
  const auto pipe = shm_pipe(std::move(second), false, &reason);
  ASSERT_NE(pipe, nullptr) << reason;
  const iovec part{got.data(), got.size()};
  EXPECT_EQ(pipe->read({&part, 1}), static_cast<int64_t>(text.size()));
  EXPECT_EQ(got, text);
  EXPECT_EQ(pipe->read({&part, 1}), kBroken);
  EXPECT_EQ(pipe->reason(), "closed by the remote rank");
}

}  // namespace
}  // namespace stretto::comm
