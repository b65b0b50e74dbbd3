#include "stretto/comm/engine/operation.h"

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
  EXPECT_EQ(describe(Operation{.count = 3, .name = "w"}), "all_reduce of 3 float32 (average), 'w'");
  EXPECT_EQ(describe(Operation{.kind = Kind::kBroadcast, .dtype = DType::kInt64, .root = 1}),
            "broadcast of 0 int64, root 1");
  EXPECT_EQ(describe(Operation{.kind = Kind::kBarrier}), "barrier");
}

TEST(Operation, NonsenseIsRefused) {
  EXPECT_EQ(message_of({.count = 0}, 0, 1), "");
  EXPECT_EQ(message_of({.count = -1}, 0, 2), "all_reduce: expected a count of at least 0, got -1");
  EXPECT_EQ(message_of({.root = 2}, 0, 2), "all_reduce: expected a root from 0 to 1, got 2");
  EXPECT_EQ(message_of({.kind = Kind::kSend, .peer = 1}, 1, 2),
            "send: expected another rank of the group, from 0 to 1 and not 1, got 1");
  EXPECT_EQ(message_of({.kind = Kind::kRecv, .peer = kAnyPeer}, 1, 2), "");
  EXPECT_EQ(message_of({.kind = Kind::kAllToAll, .input_counts = {1}}, 0, 2),
            "all_to_all: expected 2 input counts and displacements, one for each rank, got 1");
  EXPECT_EQ(
      message_of({.dtype = DType::kFloat64, .codec = "int8"}, 0, 2),
      "all_reduce: codec int8 works for sum and average of float32 only; leave the codec empty");
  EXPECT_EQ(message_of({.kind = Kind::kAllGather, .output_counts = {1, -1}}, 0, 2),
            "all_gather: expected output counts and displacements of at least 0, got -1");
  EXPECT_EQ(message_of({.dtype = DType::kUndefined}, 0, 2),
            "all_reduce: the element type is undefined");
  EXPECT_EQ(message_of({.dtype = DType::kBool}, 0, 2),
            "all_reduce: average is not defined for bool; use max or min");
  float residual = 0;
  EXPECT_EQ(message_of({.kind = Kind::kBroadcast, .residual = &residual}, 0, 2),
            "broadcast: only an all_reduce with sum or average of float32 can have a residual");
  EXPECT_EQ(message_of({.codec = "zip"}, 0, 2),
            "codec: expected one of none, fp16, bf16, int8, got 'zip'");
}

}  // namespace
}  // namespace stretto::comm
