// Threads that share a bucket, and forked children.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <vector>

#include "stretto/base/fork_testing.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/engine/lifetime_testing.h"
#include "stretto/comm/gradient/gradients.h"

namespace stretto::comm {
namespace {

using testing::error_of;
using testing::expect_no_errors;
using testing::first_unaware;
using testing::run_ranks;
using testing::tcp;
using testing::wait_until_waiting;

TEST(GradientsLifetime, TwoThreadsThatWaitForOneBucketReturn) {
  expect_no_errors(run_ranks(2, tcp, [](Engine& engine) {
    Gradients gradients(engine, "g", {0, 1}, "none", engine.options());
    std::vector<float> x(1000, 1.0f + static_cast<float>(engine.membership().rank));
    if (engine.membership().rank == 1) wait_until_waiting();
    const Handle handle =
        gradients.submit({.slices = {{.parameter = "w", .count = 1000}}, .values = x.data()});
    auto other = std::async(std::launch::async, [&] { return gradients.wait(handle, 60); });
    auto another = std::async(std::launch::async, [&] { return gradients.wait(handle, 60); });
    const std::string a = error_of([&] { EXPECT_TRUE(other.get()); });
    const std::string b = error_of([&] { EXPECT_TRUE(another.get()); });
    EXPECT_TRUE(a == "no error" || b == "no error") << a << b;
    EXPECT_EQ(x[7], 1.5f);
  }));
}

TEST(GradientsLifetime, EveryMethodSaysThatTheProcessWasForked) {
  auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, tcp(0));
  Gradients gradients(*engine, "g", {0}, "none", engine->options());
  float x = 1;
  const auto submit = [&] {
    return gradients.submit({.slices = {{.parameter = "w", .count = 1}}, .values = &x});
  };
  const Handle handle = submit();
  const int first = in_a_child([&] {
    return first_unaware({
        [&] { submit(); },
        [&] { gradients.wait(handle); },
        [&] {
          std::vector<Completion> batch(1);
          gradients.next_completions(batch, 10);
        },
        [&] { gradients.interrupt(); },
    });
  });
  EXPECT_EQ(first, 0) << "the number of the method that did not, from 1; -1: it hung";
  EXPECT_TRUE(gradients.wait(handle));
}

}  // namespace
}  // namespace stretto::comm
