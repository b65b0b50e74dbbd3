#include <algorithm>
#include <array>

#include "stretto/media/jpeg/inverse.h"

namespace stretto::media::jpeg {
namespace {

constexpr int kBits = 13, kMore = 2;  // behind the point: of constants, and of the first pass

constexpr int64_t rounded(int64_t value, int bits) {
  return (value + (int64_t{1} << (bits - 1))) >> bits;
}

// Eight numbers from eight, by the algorithm of Loeffler, Ligtenberg and Moschytz with twelve
// multiplications, as libjpeg arranges it.
std::array<int64_t, 8> transform(const std::array<int64_t, 8>& in, int shift) {
  const int64_t even = (in[2] + in[6]) * 4433;
  const int64_t t2 = even - in[6] * 15137, t3 = even + in[2] * 6270;
  const int64_t t0 = (in[0] + in[4]) << kBits, t1 = (in[0] - in[4]) << kBits;
  const std::array<int64_t, 4> a{t0 + t3, t1 + t2, t1 - t2, t0 - t3};

  const int64_t z5 = (in[7] + in[3] + in[5] + in[1]) * 9633;
  const int64_t z1 = (in[7] + in[1]) * -7373, z2 = (in[5] + in[3]) * -20995;
  const int64_t z3 = (in[7] + in[3]) * -16069 + z5, z4 = (in[5] + in[1]) * -3196 + z5;
  const std::array<int64_t, 4> b{in[1] * 12299 + z1 + z4, in[3] * 25172 + z2 + z3,
                                 in[5] * 16819 + z2 + z4, in[7] * 2446 + z1 + z3};
  std::array<int64_t, 8> out{};
  for (size_t i = 0; i < 4; ++i) {
    out[i] = rounded(a[i] + b[i], shift);
    out[7 - i] = rounded(a[i] - b[i], shift);
  }
  return out;
}

}  // namespace

void inverse_reference(const int16_t* coefficients, uint8_t* to, int64_t stride) {
  std::array<std::array<int64_t, 8>, 8> columns;
  for (size_t c = 0; c < 8; ++c) {
    std::array<int64_t, 8> in{};
    for (size_t r = 0; r < 8; ++r) in[r] = coefficients[8 * r + c];
    columns[c] = transform(in, kBits - kMore);
  }
  for (size_t r = 0; r < 8; ++r) {
    std::array<int64_t, 8> in{};
    for (size_t c = 0; c < 8; ++c) in[c] = columns[c][r];
    const std::array<int64_t, 8> out = transform(in, kBits + kMore + 3);
    for (size_t c = 0; c < 8; ++c) {
      to[static_cast<int64_t>(r) * stride + static_cast<int64_t>(c)] =
          static_cast<uint8_t>(std::clamp<int64_t>(out[c] + 128, 0, 255));
    }
  }
}

}  // namespace stretto::media::jpeg
