#include "stretto/ir/ops/table.h"

#include <algorithm>

namespace stretto::ir {

std::span<const Operator* const> operators() {
  // Alphabetical within each group.
  static constexpr const Operator* kOperators[] = {
      &ops::kIdentity,
  };
  return kOperators;
}

}  // namespace stretto::ir
