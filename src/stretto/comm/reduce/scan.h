// Finds infinity and NaN in memory.
#pragma once

#include <cstdint>

#include "stretto/base/cpu.h"
#include "stretto/tensor/dtype.h"

namespace stretto::comm {

// Inf and NaN that were found.
struct NonFinite {
  int64_t count = 0;
  int64_t first = -1;  // element, -1 for none
};

// Among `count` values; integers and bool have none.
NonFinite scan_non_finite(Isa isa, DType dtype, const void* data, int64_t count);

}  // namespace stretto::comm
