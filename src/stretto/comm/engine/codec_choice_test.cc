#include "stretto/comm/engine/codec_choice.h"

#include <gtest/gtest.h>

namespace stretto::comm {
namespace {

Options with_codec(const char* name) {
  Options options;
  options.codec = name;
  return options;
}

std::string chosen(Operation operation, const char* of_options) {
  OpenOperation open;
  open.operation = std::move(operation);
  NamedResiduals residuals;
  choose_codec(open, with_codec(of_options), &residuals);
  EXPECT_EQ(open.codec ? open.codec->name : "", open.operation.codec);
  return open.operation.codec;
}

TEST(CodecChoice, AnOperationsOwnCodecComesFirst) {
  EXPECT_EQ(chosen({.count = 4}, "none"), "");
  EXPECT_EQ(chosen({.count = 4}, "int8"), "int8");
  EXPECT_EQ(chosen({.count = 4, .codec = "fp16"}, "int8"), "fp16");
  EXPECT_EQ(chosen({.count = 4, .codec = "none"}, "int8"), "");
}

TEST(CodecChoice, OnlySumsAndAveragesOfFloat32HaveOne) {
  EXPECT_EQ(chosen({.reduction = ReduceOp::kSum, .count = 4}, "int8"), "int8");
  EXPECT_EQ(chosen({.reduction = ReduceOp::kMax, .count = 4}, "int8"), "");
  EXPECT_EQ(chosen({.dtype = DType::kFloat64, .count = 4}, "int8"), "");
  EXPECT_EQ(chosen({.kind = Kind::kBroadcast, .count = 4}, "int8"), "");
}

TEST(CodecChoice, CodecsOfSeveralStagesAreForGradientsOnly) {
  for (const char* codec : {"topk", "powersgd", "mixed"})
    EXPECT_EQ(chosen({.count = 4}, codec), "");
  EXPECT_EQ(chosen({.count = 4, .codec = "int8"}, "powersgd"), "int8");
}

TEST(CodecChoice, NamedOperationsHaveAResidualUnlessTheyBringOne) {
  ASSERT_TRUE(find_codec("int8").feedback);
  NamedResiduals residuals;
  const auto residual_of = [&](Operation operation) {
    OpenOperation open;
    open.group = 3;
    open.operation = std::move(operation);
    choose_codec(open, with_codec("int8"), &residuals);
    return open.operation.residual;
  };
  float own = 0;
  EXPECT_EQ(residual_of({.count = 4, .name = "w"}), residuals.of(3, "w", 4));
  EXPECT_EQ(residual_of({.count = 4, .name = "w", .residual = &own}), &own);
  EXPECT_EQ(residual_of({.count = 4}), nullptr);
  EXPECT_EQ(residual_of({.reduction = ReduceOp::kMax, .count = 4, .name = "w"}), nullptr);
}

}  // namespace
}  // namespace stretto::comm
