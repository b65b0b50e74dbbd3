// Which elements of which earlier value a value is made of, when nothing but moves lie between: the
// chain of Reshape, Transpose, Slice, Split, Gather of one index, and products with a scalar.
#pragma once

#include <vector>

#include "stretto/passes/rewriter.h"

namespace stretto::passes {

// Element (i0, i1, ...) = scale * element offset + sum(i_k strides[k]) of the dense `source`.
struct View {
  ValueId source = kNone;
  int64_t offset = 0;
  Shape shape;
  std::vector<int64_t> strides;
  double scale = 1;
};

// Traces `id` back as far as a view reaches; at the least it is a view of itself.
View trace_view(const Rewriter& graph, ValueId id);

}  // namespace stretto::passes
