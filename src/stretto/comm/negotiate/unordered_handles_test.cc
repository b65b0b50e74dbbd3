// Handles of named operations, whose places are used again and again.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/negotiate/unordered.h"

namespace stretto::comm {
namespace {

std::shared_ptr<const Recurring> sum_of_one() {
  return std::make_shared<const Recurring>(
      Recurring{.description = "f32", .operation = {.reduction = ReduceOp::kSum, .count = 1}});
}

// What ended the operation took: wait() or take_over().
void end(Unordered& named, Handle handle, bool take) {
  if (take) {
    while (!named.poll(handle)) {
    }
    EXPECT_TRUE(named.take_over(handle));
  } else {
    EXPECT_TRUE(named.wait(handle));
  }
}

TEST(UnorderedHandles, OneThatWasWaitedForIsNeverAnotherOne) {
  const auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, testing::patient());
  Unordered named(*engine, "job", {0}, {});
  const auto what = sum_of_one();
  std::set<Handle> seen;
  std::array<float, 3> values{};
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<Handle> handles;
    for (size_t i = 0; i < values.size(); ++i)
      handles.push_back(named.submit("t" + std::to_string(i), what, &values[i]));
    for (const Handle handle : handles) {
      EXPECT_NE(handle, kNoHandle);
      EXPECT_TRUE(seen.insert(handle).second) << turn;
    }
    for (size_t i = 0; i < handles.size(); ++i) end(named, handles[i], (turn + i) % 2 == 0);
    for (const Handle handle : seen) {
      EXPECT_FALSE(named.take_over(handle));
      if (turn % 20 != 0) continue;
      EXPECT_THROW(named.poll(handle), InvalidArgument);
      EXPECT_THROW(named.wait(handle), InvalidArgument);
    }
  }
  for (const Handle made_up : {kNoHandle, Handle{77}, ~Handle{0}})
    EXPECT_THROW(named.wait(made_up), InvalidArgument);
  named.leave();
  EXPECT_TRUE(named.wait_left(60));
}

// More than those whose items are kept for the next operations.
TEST(UnorderedHandles, ManyAreOpenAtATime) {
  const auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, testing::patient());
  Unordered named(*engine, "job", {0}, {});
  const auto what = sum_of_one();
  constexpr size_t kMany = 5000;
  std::vector<float> values(kMany);
  std::iota(values.begin(), values.end(), 0.0f);
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<Handle> handles;
    for (size_t i = 0; i < kMany; ++i)
      handles.push_back(named.submit("t" + std::to_string(i), what, &values[i]));
    for (size_t i = 0; i < kMany; ++i) end(named, handles[i], i % 3 == 0);
    for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(values[i], static_cast<float>(i));
  }
  named.leave();
  EXPECT_TRUE(named.wait_left(60));
}

// A refused operation leaves its place to the next.
TEST(UnorderedHandles, ANameInUseTakesNoPlace) {
  const auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, testing::patient());
  Unordered named(*engine, "job", {0}, {});
  const auto what = sum_of_one();
  float value = 3;
  int refused = 0;
  for (int turn = 0; turn < 1000 && refused < 3; ++turn) {  // the first may be over by then
    std::vector<Handle> handles{named.submit("t", what, &value)};
    try {
      handles.push_back(named.submit("t", what, &value));
    } catch (const InvalidArgument&) {
      ++refused;
    }
    for (const Handle handle : handles) EXPECT_TRUE(named.wait(handle));
  }
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(value, 3);
  named.leave();
  EXPECT_TRUE(named.wait_left(60));
}

}  // namespace
}  // namespace stretto::comm
