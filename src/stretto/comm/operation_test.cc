#include "stretto/comm/operation.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

std::string message_of(const Operation& operation, int rank, int size) {
  try {
    check(operation, rank, size);
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "";
}

TEST(Operation, DescribesItself) {
  EXPECT_EQ(describe(Operation{.count = 3, .name = "w"}), "all_reduce of 3 float32 (sum), 'w'");
  EXPECT_EQ(describe(Operation{.kind = Kind::kBroadcast, .dtype = DType::kInt64, .root = 1}),
            "broadcast of 0 int64, root 1");
  EXPECT_EQ(describe(Operation{.kind = Kind::kBarrier}), "barrier");
}

TEST(Operation, NonsenseIsRefused) {
  EXPECT_EQ(message_of({.count = 0}, 0, 1), "");
  EXPECT_EQ(message_of({.count = -1}, 0, 2), "all_reduce: negative count -1");
  EXPECT_EQ(message_of({.root = 2}, 0, 2), "all_reduce: root 2 in a group of 2 ranks");
  EXPECT_EQ(message_of({.kind = Kind::kSend, .peer = 1}, 1, 2),
            "send: rank 1 cannot have peer 1 in a group of 2 ranks");
  EXPECT_EQ(message_of({.kind = Kind::kRecv, .peer = kAnyPeer}, 1, 2), "");
  EXPECT_EQ(message_of({.kind = Kind::kAllToAll, .input_counts = {1}}, 0, 2),
            "all_to_all: 1 input parts, the group has 2 ranks");
  EXPECT_EQ(message_of({.dtype = DType::kFloat64, .codec = "int8"}, 0, 2),
            "all_reduce: codec int8 is for sums and averages of float32");
}

}  // namespace
}  // namespace stretto::comm
