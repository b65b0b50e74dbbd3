#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "stretto/base/fork_testing.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/engine/lifetime_testing.h"
#include "stretto/comm/negotiate/unordered.h"

namespace stretto::comm {
namespace {

using testing::first_unaware;
using testing::tcp;

TEST(UnorderedFork, EveryMethodSaysThatTheProcessWasForked) {
  auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, tcp(0));
  Unordered named(*engine, "job", {0}, {});
  float x = 1;
  const auto what =
      std::make_shared<const Recurring>(Recurring{.description = "f32", .operation = {.count = 1}});
  const auto submit = [&](std::string_view name) {
    return named.submit(name, "f32", kWorld,
                        {{.reduction = ReduceOp::kSum, .count = 1, .input = &x, .output = &x}});
  };
  const Handle handle = submit("w");
  const int first = in_a_child([&] {
    return first_unaware({
        [&] { submit("v"); },
        [&] { named.submit("v", "f32", [] { return Rest(); }); },
        [&] { named.submit("v", what, &x); },
        [&] { named.set_timeout(1); },
        [&] { named.join(); },
        [&] { named.last_joined(); },
        [&] { named.poll(handle); },
        [&] { named.wait(handle); },
        [&] { named.take_over(handle); },
        [&] { named.leave(); },
        [&] { named.wait_left(10); },
    });
  });
  EXPECT_EQ(first, 0) << "the number of the method that did not, from 1; -1: it hung";
  EXPECT_TRUE(named.wait(handle));
  named.leave();
  EXPECT_TRUE(named.wait_left(60));
}

}  // namespace
}  // namespace stretto::comm
