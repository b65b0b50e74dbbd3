// The text form of a graph: a dump to read and compare, and a notation to write small graphs in by
// hand. The grammar is in docs/formats/text.md.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "stretto/ir/graph.h"

namespace stretto::ir {

struct TextOptions {
  // Constants with more elements are written as "...", which people can read but parse_text cannot.
  int64_t max_constant_elements = std::numeric_limits<int64_t>::max();
};

// One line per input, constant, node and list of outputs. Values that nothing makes are left out,
// and so are the constants that infer() learnt of node outputs (short ones follow as a comment).
std::string to_text(const Graph& graph, const TextOptions& options = {});

// The inverse: a graph that is infer()ed and verify()ed. Types and shapes of node outputs may be
// left out; those given are checked against inference. Nodes stand in order: every value is made
// before it is used. Throws InvalidArgument beginning with the line at fault ("line 3: ..."), or
// Unsupported from inference.
Graph parse_text(std::string_view text);

// Elements that all the filled constants ("{0 ...}", "random(1)") of one text may have together: a
// short text must not be able to ask for all the memory there is.
constexpr int64_t kMaxFilledElements = int64_t{1} << 24;

}  // namespace stretto::ir
