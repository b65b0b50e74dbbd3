// How a tensor's elements lie in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "stretto/tensor/shape.h"

namespace stretto {

// kPlain: dense row-major (NCHW for images).
// kBlocked: [N][ceil(C / B)][H][W][B] for a rank-4 NCHW tensor, B = isa_lanes(isa) = 4, 8 or 16.
//   When C is no multiple of B the last block is padded; padding lanes hold unspecified values, and
//   no kernel lets them influence a real lane. Ranks other than 4 are never blocked.
enum class Layout : uint8_t { kPlain, kBlocked };

inline std::string_view layout_name(Layout layout) {
  return layout == Layout::kBlocked ? "blocked" : "plain";
}

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Elements that a tensor of this logical shape occupies, padding included. `block` = B.
inline int64_t storage_elements(std::span<const int64_t> shape, Layout layout, int block) {
  if (layout == Layout::kPlain) return element_count(shape);
  const Shape padded{shape[0], round_up(shape[1], block), shape[2], shape[3]};
  return element_count(padded);
}

}  // namespace stretto
