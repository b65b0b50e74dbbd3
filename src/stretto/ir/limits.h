// Bounds that no real model comes near; beyond them are damaged files and mistakes.
#pragma once

#include <cstddef>

namespace stretto::ir {

constexpr size_t kMaxRank = 64;  // dimensions of one value

}  // namespace stretto::ir
