#include "stretto/base/fork.h"

#include "stretto/base/fork_testing.h"

namespace stretto {
namespace {

TEST(Fork, ChildrenKnowThatTheyAre) {
  const uint64_t before = forks();
  EXPECT_EQ(in_a_child([&] { return static_cast<int>(forks() - before); }), 1);
  EXPECT_EQ(
      in_a_child([&] { return in_a_child([&] { return static_cast<int>(forks() - before); }); }),
      2);
  EXPECT_EQ(forks(), before);
}

}  // namespace
}  // namespace stretto
