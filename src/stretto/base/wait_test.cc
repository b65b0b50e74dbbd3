#include "stretto/base/wait.h"

#include <gtest/gtest.h>

#include <thread>

namespace stretto {
namespace {

// A thread that is stopped before it raises the word comes when others have raised it further. If
// it took that back, whoever waits for its value to go would wait for ever.
TEST(RaiseAndWake, ALowerValueThatComesLateIsLeftOut) {
  std::atomic<uint32_t> word{5};
  raise_and_wake(word, 6);
  EXPECT_EQ(word, 6u);
  raise_and_wake(word, 8);
  raise_and_wake(word, 7);
  EXPECT_EQ(word, 8u);
}

TEST(RaiseAndWake, CountsRound) {
  std::atomic<uint32_t> word{0xfffffffe};
  raise_and_wake(word, 1);
  EXPECT_EQ(word, 1u);
  raise_and_wake(word, 0xffffffff);
  EXPECT_EQ(word, 1u);
}

TEST(RaiseAndWake, TheLastOfSeveralThreadsIsSeen) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<uint32_t> word{0};
    std::thread waits([&] {
      for (uint32_t seen = 0; seen < 4; seen = word) wait_while(word, seen);
    });
    std::thread one([&] {
      raise_and_wake(word, 1);
      raise_and_wake(word, 3);
    });
    std::thread other([&] {
      raise_and_wake(word, 2);
      raise_and_wake(word, 4);
    });
    one.join();
    other.join();
    waits.join();
    EXPECT_EQ(word, 4u);
  }
}

}  // namespace
}  // namespace stretto
