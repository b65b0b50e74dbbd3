#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {

bool lower_view(Lowering& l, const ir::Node& node) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  const int block = l.target().block();
  // A [n, c, 1, 1] map whose channels fill whole blocks lies the same way in both layouts.
  std::vector<std::pair<Layout, Layout>> also;
  const bool same_x = same_in_both_layouts(l.shape(x), block);
  const bool same_y = same_in_both_layouts(l.shape(y), block);
  if (same_x) also.emplace_back(Layout::kBlocked, Layout::kPlain);
  if (same_y) also.emplace_back(Layout::kPlain, Layout::kBlocked);
  if ((same_x && same_y) || l.shape(x) == l.shape(y)) {
    if (l.shape(x).size() == 4) also.emplace_back(Layout::kBlocked, Layout::kBlocked);
  }
  l.add_view(node, x, y, 0, std::move(also));
  return true;
}

}  // namespace stretto::runtime
