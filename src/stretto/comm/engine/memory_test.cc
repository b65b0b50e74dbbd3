// Operations for which there is no memory: any allocation of submit() may fail, and then an error
// is raised on all ranks that take part, or the operation can be submitted again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "stretto/comm/engine/engine_testing.h"

namespace {

// Of this thread: how many allocations succeed; negative: all. Then one fails, or all do.
thread_local int allocations_left = -1;
thread_local bool fails_on = false;

}  // namespace

// The forms of new and delete for arrays call these, or are a pair of the address sanitizer's. Not
// inlined: the compiler would complain that free() gets what new made.
#define STRETTO_NOT_INLINED __attribute__((noinline))
STRETTO_NOT_INLINED void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  if (allocations_left == 0) {
    if (!fails_on) allocations_left = -1;
    return nullptr;
  }
  if (allocations_left > 0) --allocations_left;
  return std::malloc(bytes > 0 ? bytes : 1);
}
STRETTO_NOT_INLINED void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (!memory) throw std::bad_alloc();
  return memory;
}
STRETTO_NOT_INLINED void operator delete(void* memory) noexcept { std::free(memory); }
STRETTO_NOT_INLINED void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace stretto::comm {
namespace {

constexpr int64_t kMany = 300'000;

struct Case {
  const char* name;
  bool fails_on;
  int64_t count;
  const char* codec;
  Kind kind;
};

class SubmitWithoutMemory : public ::testing::TestWithParam<Case> {};

Operation operation_of(const Case& c, int rank, float* x) {
  Operation op{.kind = c.kind, .reduction = ReduceOp::kSum, .count = c.count};
  if (c.kind == Kind::kSend) {
    op.kind = rank == 0 ? Kind::kSend : Kind::kRecv;
    op.peer = 1 - rank;
    op.tag = 7;
  }
  op.codec = c.codec;
  if (op.kind != Kind::kRecv) op.input = x;
  if (op.kind != Kind::kSend) op.output = x;
  return op;
}

TEST_P(SubmitWithoutMemory, IsAnErrorAndNeverHangs) {
  const Case& c = GetParam();
  bool all_succeeded = false;
  int failed = 0;
  for (int n = 0; !all_succeeded; ++n) {
    ASSERT_LT(n, 400) << "submit() allocates without end";
    bool thrown = false;
    const auto errors = testing::run_ranks(2, testing::two_hosts, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      std::vector<float> x(static_cast<size_t>(c.count), static_cast<float>(rank + 1));
      const Operation op = operation_of(c, rank, x.data());
      Handle handle = kNoHandle;
      if (rank == 0) {
        allocations_left = n;
        fails_on = c.fails_on;
        try {
          handle = engine.submit(kWorld, op);
        } catch (const std::bad_alloc&) {
          thrown = true;
        }
        all_succeeded = allocations_left > 0 || (!fails_on && allocations_left == 0);
        allocations_left = -1;
        if (thrown) handle = engine.submit(kWorld, op);
      } else {
        handle = engine.submit(kWorld, op);
      }
      engine.wait(handle);
      if (op.kind != Kind::kSend) {
        EXPECT_NEAR(x.back(), c.kind == Kind::kSend ? 1.0f : 3.0f, *c.codec ? 0.01f : 0);
      }
      // Rank 1 may have had all that it needed. Then it hears of the failure here.
      float last = 1;
      engine.wait(engine.submit(kWorld, {.count = 1, .input = &last, .output = &last}));
    });
    EXPECT_EQ(errors[0].empty(), errors[1].empty()) << n << ": " << errors[0] << errors[1];
    if (!errors[0].empty()) {
      ++failed;
      EXPECT_NE(errors[1].find("rank 0: "), std::string::npos) << errors[1];
      EXPECT_NE(errors[1].find("bad_alloc"), std::string::npos) << errors[1];
    }
    EXPECT_TRUE(!all_succeeded || errors[0].empty()) << errors[0];
  }
  EXPECT_GT(failed, 0) << "no allocation behind the first message failed";
}

INSTANTIATE_TEST_SUITE_P(
    Engine, SubmitWithoutMemory,
    ::testing::Values(Case{"small", false, 1, "", Kind::kAllReduce},
                      Case{"small_for_long", true, 1, "", Kind::kAllReduce},
                      Case{"large", false, kMany, "", Kind::kAllReduce},
                      Case{"large_for_long", true, kMany, "", Kind::kAllReduce},
                      Case{"coded", false, kMany, "int8", Kind::kAllReduce},
                      Case{"coded_for_long", true, kMany, "int8", Kind::kAllReduce},
                      Case{"message", false, kMany, "", Kind::kSend},
                      Case{"message_for_long", true, 1, "", Kind::kSend}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stretto::comm
