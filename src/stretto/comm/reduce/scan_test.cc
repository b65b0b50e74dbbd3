#include "stretto/comm/reduce/scan.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace stretto::comm {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Scan, FindsEveryOneAndTheFirst) {
  std::mt19937 random(2);
  for (const Isa isa : usable_isas())
    for (int trial = 0; trial < 200; ++trial) {
      std::vector<float> values(random() % 5000);
      for (float& v : values) v = static_cast<float>(random() % 1000) - 500;
      NonFinite expected;
      for (size_t i = 0; i < values.size(); ++i) {
        if (random() % 2000 != 0) continue;
        values[i] = random() % 3 == 0 ? kInf : random() % 2 ? -kInf : kNan;
        if (expected.count++ == 0) expected.first = static_cast<int64_t>(i);
      }
      const auto count = static_cast<int64_t>(values.size());
      const NonFinite found = scan_non_finite(isa, DType::kFloat32, values.data(), count);
      ASSERT_EQ(found.count, expected.count) << isa_name(isa) << ", trial " << trial;
      ASSERT_EQ(found.first, expected.first) << isa_name(isa) << ", trial " << trial;
    }
}

TEST(Scan, KnowsEveryType) {
  std::vector<double> wide(100, 1e300);
  wide[99] = kNan;
  EXPECT_EQ(scan_non_finite(usable_isa(), DType::kFloat64, wide.data(), 100).first, 99);
  std::vector<uint16_t> narrow(100, 0x7bff);  // the greatest fp16
  EXPECT_EQ(scan_non_finite(usable_isa(), DType::kFloat16, narrow.data(), 100).count, 0);
  narrow[40] = 0xfc00;
  EXPECT_EQ(scan_non_finite(usable_isa(), DType::kFloat16, narrow.data(), 100).first, 40);
  EXPECT_EQ(scan_non_finite(usable_isa(), DType::kBFloat16, narrow.data(), 100).count, 0);
  narrow[70] = 0x7f80;
  EXPECT_EQ(scan_non_finite(usable_isa(), DType::kBFloat16, narrow.data(), 100).first, 70);
  EXPECT_EQ(scan_non_finite(usable_isa(), DType::kInt16, narrow.data(), 100).count, 0);
}

}  // namespace
}  // namespace stretto::comm
