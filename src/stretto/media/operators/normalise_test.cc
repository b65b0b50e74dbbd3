#include "stretto/media/operators/normalise.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "stretto/base/error.h"

namespace stretto::media::operators {
namespace {

double element_at(const std::vector<uint8_t>& memory, DType dtype, size_t i) {
  const uint8_t* p = memory.data() + i * dtype_bytes(dtype);
  if (dtype == DType::kUInt8) return *p;
  float f;
  uint16_t bits;
  if (dtype == DType::kFloat32) {
    std::memcpy(&f, p, 4);
    return f;
  }
  std::memcpy(&bits, p, 2);
  return dtype == DType::kFloat16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

TEST(Normalise, EveryKernelGivesTheReferencesValues) {
  std::mt19937 random(23);
  Work work;
  for (int i = 0; i < 240; ++i) {
    const int64_t width = 1 + static_cast<int64_t>(random() % 70);
    const int64_t height = 1 + static_cast<int64_t>(random() % 9);
    std::vector<uint8_t> rgb(static_cast<size_t>(3 * width * height));
    for (uint8_t& b : rgb) b = static_cast<uint8_t>(random());
    const Pixels pixels{rgb.data(), width, height};
    constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kUInt8};
    const DType dtype = kTypes[i % 4];
    Target target = i / 4 % 3 == 0   ? planar_target(nullptr, dtype, width, height)
                    : i / 4 % 3 == 1 ? interleaved_target(nullptr, dtype, width)
                                     : Target{.dtype = dtype,
                                              .row_stride = 4 * width + 1,
                                              .pixel_stride = 4,
                                              .channel_stride = 1};
    target.mean = {0.485f, 0.456f, 0.406f};
    target.std = {0.229f, 0.224f, 0.225f};
    std::vector<Region> erased;
    if (i % 5 == 0) erased.push_back({width / 3, height / 3, width, height});
    const size_t elements = static_cast<size_t>((4 * width + 1) * height);
    std::vector<uint8_t> expected(elements * dtype_bytes(dtype), 0xAB), got;
    target.data = expected.data();
    normalise_reference(pixels, target, erased);
    for (const Isa isa : usable_isas()) {
      got.assign(expected.size(), 0xAB);
      target.data = got.data();
      normalise(pixels, target, erased, work, isa);
      for (size_t e = 0; e < elements; ++e) {
        const double want = element_at(expected, dtype, e), value = element_at(got, dtype, e);
        if (want == value) continue;
        // One rounding of a float up to 3, then one step of the type where that is at a border.
        const double step = dtype == DType::kFloat16    ? 0x1p-10
                            : dtype == DType::kBFloat16 ? 0x1p-7
                                                        : 0;
        ASSERT_NEAR(value, want, 6e-7 + 1.1 * step * std::abs(want))
            << isa_name(isa) << " case " << i << " element " << e;
      }
    }
  }
}

TEST(Normalise, ErasedPixelsAreZeroOrTheMean) {
  std::vector<uint8_t> rgb(3 * 12, 200), bytes(3 * 12);
  std::vector<float> out(3 * 12);
  Work work;
  Target target = planar_target(out.data(), DType::kFloat32, 4, 3);
  target.mean = {0.5f, 0.25f, 1.0f};
  const Region hole{1, 1, 3, 2};
  normalise({rgb.data(), 4, 3}, target, {&hole, 1}, work, usable_isa());
  EXPECT_EQ(out[4 + 1], 0);
  EXPECT_EQ(out[4 + 2], 0);
  EXPECT_NEAR(out[4 + 3], 200. / 255 - 0.5, 1e-6);
  target.data = bytes.data();
  target.dtype = DType::kUInt8;
  normalise({rgb.data(), 4, 3}, target, {&hole, 1}, work, usable_isa());
  EXPECT_EQ(bytes[4 + 1], 128);
  EXPECT_EQ(bytes[12 + 4 + 1], 64);
  EXPECT_EQ(bytes[24 + 4 + 1], 255);
  EXPECT_EQ(bytes[4 + 3], 200);
  const Region outside{1, 1, 5, 2};
  EXPECT_THROW(normalise({rgb.data(), 4, 3}, target, {&outside, 1}, work, usable_isa()),
               InvalidArgument);
  target.dtype = DType::kInt32;
  EXPECT_THROW(normalise({rgb.data(), 4, 3}, target, {}, work, usable_isa()), InvalidArgument);
}

}  // namespace
}  // namespace stretto::media::operators
