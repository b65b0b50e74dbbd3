// Ranges of shapes: what an input with open dimensions takes.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/tensor/shape.h"

namespace stretto {

// The sizes that one dimension may have. Dimensions of one name are equal in every run.
struct Dimension {
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

  int64_t least = 1, most = 1;  // both included; most kAny: no limit
  std::string name;             // empty: it stands alone

  bool fixed() const { return least == most; }
  bool operator==(const Dimension&) const = default;
};

using ShapeRange = std::vector<Dimension>;

// "batch:1..8x3x224x224", "1..x128": sizes, or the least and the most with two dots between; no
// most is no limit. A name and a colon may stand before. "scalar" for rank 0. Throws
// InvalidArgument.
ShapeRange parse_shape_range(std::string_view text);
std::string shape_range_text(const ShapeRange& range);

ShapeRange fixed_range(std::span<const int64_t> shape);
bool is_fixed(const ShapeRange& range);

}  // namespace stretto
