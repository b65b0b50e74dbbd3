// One scan as its decoder takes it: checked, and nothing is allocated.
#pragma once

#include <cstdint>

#include "stretto/base/cpu.h"

namespace stretto::media::jpeg {

// Where the coefficients of a file stand in a block (T.81, figure A.6).
inline constexpr uint8_t kNatural[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// What is known of a symbol when its code is:
//   bits 0-5    the bits of its code and its value together
//   bits 6-11   63 less the bits of its value
//   bits 12-19  coefficients to go forward: zeros, or kEndOfBlock
//   bits 20-24  the bits of its code, at least 1
constexpr int kEndOfBlock = 80;  // 63 + 15 is the farthest place that zeros lead to
constexpr int used_bits(uint32_t entry) { return static_cast<int>(entry & 63); }
constexpr int value_shift(uint32_t entry) { return static_cast<int>(entry >> 6 & 63); }
constexpr int skip_of(uint32_t entry) { return static_cast<int>(entry >> 12 & 255); }
constexpr int code_bits(uint32_t entry) { return static_cast<int>(entry >> 20); }
constexpr uint32_t entry_of(int symbol, int code_bits, bool dc) {
  const int zeros = dc ? 0 : symbol >> 4, bits = symbol & 15;
  const bool end = !dc && bits == 0 && zeros != 15;  // libjpeg takes all of them for the end
  return static_cast<uint32_t>(code_bits + bits) | static_cast<uint32_t>(63 - bits) << 6 |
         static_cast<uint32_t>(end ? kEndOfBlock : zeros) << 12 |
         static_cast<uint32_t>(code_bits) << 20;
}

// Arrays of the language, because code for one instruction set must not instantiate functions of
// the standard library. A Huffman code as tables: what the next kFirstBits bits say.
constexpr int kFirstBits = 10;
struct HuffmanTable {
  // The symbol; 0 where its code is longer.
  uint32_t first[1 << kFirstBits];
  // As many symbols as fit, for coefficients that nobody needs: used_bits() of all, skip_of() with
  // the coefficients themselves, and whether they end the block. 0 if none fits. Not for `dc`.
  uint32_t several[1 << kFirstBits];
  // Of codes of n bits: the last one, -1 if there is none, and the index of its symbol less the
  // code.
  int32_t last[17], offset[17];
  uint8_t symbol[256];
  bool dc;
};
constexpr uint32_t kAtTheEnd = 1 << 6;

struct ScanComponent {
  int h = 1, v = 1;                    // blocks of an MCU
  int64_t blocks_x = 0, blocks_y = 0;  // of the picture; MCUs may have more
  const HuffmanTable *dc = nullptr, *ac = nullptr;
  uint32_t quantisation[64];  // in the order of coefficients in the file
  // Of the region's first block.
  uint8_t* to = nullptr;
  int64_t stride = 0, first_x = 0, first_y = 0;
};

struct Scan {
  const uint8_t *data = nullptr, *end = nullptr;
  int count = 0;
  ScanComponent component[3];
  int64_t mcus_x = 0;
  int64_t restart_interval = 0;
  int64_t first_mcu = 0, last_mcu = 0, first_row = 0, last_row = 0;  // MCUs to be written
};

// Whether all rows of MCUs before `last_row` were decoded and have nothing wrong or unusual.
bool decode_scan(const Scan& scan, Isa isa);

}  // namespace stretto::media::jpeg
