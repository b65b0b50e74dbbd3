// Attention in parts, for the operators that are made of it.
#pragma once

#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {

// [b, s, heads * d] -> [b, heads, s, d], and back.
ir::ValueId split_heads(Parts& parts, ir::ValueId x, int64_t heads);
ir::ValueId join_heads(Parts& parts, ir::ValueId x);

// Which keys a query sees by their distance; -1: open.
struct Bounds {
  bool causal = false;
  int64_t left = -1, right = -1;

  bool open() const { return !causal && left < 0 && right < 0; }
  bool allows(int64_t distance) const {  // of a key behind the query; negative ahead of it
    return (!causal || distance >= 0) && (left < 0 || distance <= left) &&
           (right < 0 || -distance <= right);
  }
};

struct Attending {
  ir::ValueId q, k, v;  // [b, heads, s, d]; the heads of k and v divide those of q
  double scale = 1, softcap = 0;
  Bounds bounds;
  int64_t past = 0;                 // keys before the first query, without `lengths`
  ir::ValueId lengths = ir::kNone;  // [b]: how many keys there are, the last ones of the queries
  ir::ValueId visible = ir::kNone;  // bools, and
  ir::ValueId bias = ir::kNone;     // what is added; both broadcast to [b, heads, queries, keys]
  ir::ValueId sink = ir::kNone;     // [heads]: a score that takes its share and has no value
  bool blind = false;               // some query may see no key
  int64_t shown = 0;                // `seen`: 0: products, 1: after softcap, 2: + bias, 3: softmax
};
struct Attended {
  ir::ValueId y, seen;  // [b, heads, queries, d], [b, heads, queries, keys]
};
Attended attend(Parts& parts, const Attending& attending);

}  // namespace stretto::onnx
