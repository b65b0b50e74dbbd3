// Every row of the list over edge sizes, instruction sets and awkward values.
#include "stretto/comm/codec/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/codec/rows.h"

namespace stretto::comm {
namespace {

constexpr int64_t kCounts[] = {0, 1, 7, 31, 255, 256, 257, 1000, 4096 + 129};

// A gradient as codecs meet it: normal values of many magnitudes, and some zeros.
std::vector<float> random_values(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values)
    v = random() % 16 == 0 ? 0 : std::ldexp(normal(random), static_cast<int>(random() % 12) - 8);
  return values;
}

struct Coded {
  std::vector<std::byte> bytes;
  std::vector<float> residual;
  NonFinite found;
};

Coded encode(const Codec& codec, Isa isa, const std::vector<float>& in,
             std::vector<float> residual) {
  Coded coded{.residual = std::move(residual)};
  const auto count = static_cast<int64_t>(in.size());
  coded.bytes.resize(static_cast<size_t>(codec.encoded_bytes(count)));
  coded.found =
      codec.encode(isa, in.data(), coded.residual.empty() ? nullptr : coded.residual.data(), count,
                   coded.bytes.data());
  return coded;
}

std::vector<float> decode(const Codec& codec, Isa isa, const Coded& coded, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count), -1);
  codec.decode(isa, coded.bytes.data(), count, out.data());
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

TEST(Codec, ErrorsAreWithinTheFormat) {
  std::mt19937 random(1);
  for (const Codec& codec : codecs())
    for (const int64_t count : kCounts) {
      const std::vector<float> in = random_values(count, random);
      const auto out = decode(codec, usable_isa(), encode(codec, usable_isa(), in, {}), count);
      for (int64_t i = 0; i < count; ++i) {
        float tolerance = 0;
        if (codec.name == "fp16") tolerance = std::abs(in[i]) * 0x1p-11f + 0x1p-25f;
        if (codec.name == "bf16") tolerance = std::abs(in[i]) * 0x1p-8f;
        if (codec.name == "int8") {
          float greatest = 0;
          const int64_t begin = i / kInt8Block * kInt8Block;
          for (int64_t j = begin; j < std::min(count, begin + kInt8Block); ++j)
            greatest = std::max(greatest, std::abs(in[j]));
          tolerance = greatest / 127 * 0.5001f;  // half a step, and the rounding of the scale
        }
        ASSERT_NEAR(out[i], in[i], tolerance) << codec.name << " " << i << " of " << count;
      }
    }
}

TEST(Codec, SameBitsWithEveryInstructionSet) {
  std::mt19937 random(2);
  for (const Codec& codec : codecs())
    for (const int64_t count : kCounts) {
      const std::vector<float> in = random_values(count, random);
      const std::vector<float> residual = random_values(count, random);
      const Coded first = encode(codec, kIsas.front(), in, residual);
      const auto values = decode(codec, kIsas.front(), first, count);
      for (const Isa isa : usable_isas()) {
        const Coded other = encode(codec, isa, in, residual);
        EXPECT_TRUE(first.bytes == other.bytes) << codec.name << " " << isa_name(isa);
        EXPECT_TRUE(same_bits(first.residual, other.residual))
            << codec.name << " " << isa_name(isa);
        EXPECT_TRUE(same_bits(values, decode(codec, isa, first, count))) << codec.name;
        std::vector<float> sum = in, expected = in;
        codec.decode_add(isa, first.bytes.data(), count, sum.data());
        for (int64_t i = 0; i < count; ++i) expected[i] += values[i];
        EXPECT_TRUE(same_bits(sum, expected)) << codec.name << " " << isa_name(isa);
      }
    }
}

TEST(Codec, ResidualIsWhatWasNotSent) {
  std::mt19937 random(3);
  for (const Codec& codec : codecs()) {
    if (codec.name == "none") continue;
    const int64_t count = 700;
    const std::vector<float> in = random_values(count, random);
    const std::vector<float> before = random_values(count, random);
    const Coded coded = encode(codec, usable_isa(), in, before);
    const auto sent = decode(codec, usable_isa(), coded, count);
    for (int64_t i = 0; i < count; ++i) {
      const float value = in[i] + before[i];
      // Value, product and difference are each rounded to fp32.
      ASSERT_NEAR(coded.residual[i], value - sent[i], std::abs(value) * 0x1p-22f) << codec.name;
    }
  }
}

TEST(Codec, CutsAtBlocksChangeNothing) {
  std::mt19937 random(4);
  for (const Codec& codec : codecs()) {
    const int64_t count = 1500, cut = 3 * kInt8Block;
    const std::vector<float> in = random_values(count, random);
    const Coded whole = encode(codec, usable_isa(), in, {});
    const Coded head = encode(codec, usable_isa(), {in.begin(), in.begin() + cut}, {});
    const Coded tail = encode(codec, usable_isa(), {in.begin() + cut, in.end()}, {});
    std::vector<std::byte> joined = head.bytes;
    joined.insert(joined.end(), tail.bytes.begin(), tail.bytes.end());
    EXPECT_TRUE(joined == whole.bytes) << codec.name;
    EXPECT_EQ(codec.encoded_bytes(cut), static_cast<int64_t>(head.bytes.size()));
  }
}

TEST(Codec, InfinityAndNanArriveAndSpareTheResidual) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::mt19937 random(5);
  for (const Codec& codec : codecs())
    for (const Isa isa : usable_isas())
      for (const int64_t count : {int64_t{1}, int64_t{100}, int64_t{256}, int64_t{777}}) {
        std::vector<float> in = random_values(count, random);
        const std::vector<float> before = random_values(count, random);
        in[count - 1] = nan;
        in[count / 2] = inf;
        in[count / 3] = -inf;
        NonFinite expected;
        for (int64_t i = 0; i < count; ++i)
          if (!std::isfinite(in[i]) && expected.count++ == 0) expected.first = i;
        const Coded coded = encode(codec, isa, in, before);
        EXPECT_EQ(coded.found.count, expected.count) << codec.name << " " << count;
        EXPECT_EQ(coded.found.first, expected.first) << codec.name << " " << count;
        const auto out = decode(codec, isa, coded, count);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(std::isnan(in[i]), std::isnan(out[i])) << codec.name << " " << i;
          ASSERT_EQ(std::isinf(in[i]), std::isinf(out[i])) << codec.name << " " << i;
          if (std::isinf(in[i])) {
            ASSERT_EQ(in[i], out[i]) << codec.name << " " << i;
          }
          ASSERT_TRUE(std::isfinite(coded.residual[i])) << codec.name << " " << i;
          if (!std::isfinite(in[i])) {
            ASSERT_EQ(coded.residual[i], before[i]) << codec.name;
          }
        }
      }
}

TEST(Codec, Int8KeepsTinyBlocksInTheResidual) {
  const Codec& codec = find_codec("int8");
  const std::vector<float> in(300, 1e-36f);
  const Coded coded = encode(codec, usable_isa(), in, std::vector<float>(300));
  const auto out = decode(codec, usable_isa(), coded, 300);
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(out[i], 0);
    EXPECT_EQ(coded.residual[i], in[i]);
  }
}

TEST(Codec, Fp16OverflowIsInfiniteAndKeepsTheResidualFinite) {
  const Codec& codec = find_codec("fp16");
  const Coded coded = encode(codec, usable_isa(), {1e6f, 1.0f}, {0.5f, 0.0f});
  const auto out = decode(codec, usable_isa(), coded, 2);
  EXPECT_TRUE(std::isinf(out[0]));
  EXPECT_EQ(coded.residual[0], 0.5f);
  EXPECT_EQ(coded.found.count, 0) << "the gradient itself was finite";
}

TEST(Codec, SizesOnTheWire) {
  EXPECT_EQ(find_codec("none").encoded_bytes(1000), 4000);
  EXPECT_EQ(find_codec("fp16").encoded_bytes(1000), 2000);
  EXPECT_EQ(find_codec("int8").encoded_bytes(1024), 1024 + 16);
  EXPECT_EQ(find_codec("int8").encoded_bytes(1025), 1025 + 20);
  EXPECT_EQ(find_codec("int8").encoded_bytes(0), 0);
  EXPECT_THROW(find_codec("fp4"), InvalidArgument);
}

}  // namespace
}  // namespace stretto::comm
