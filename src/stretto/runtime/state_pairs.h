// What a model carries from one run to the next: pairs of an input and the output that becomes this
// input. Found by name, or named by the caller; then the graph is rewritten to append in place.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stretto/ir/graph.h"
#include "stretto/tensor/shape_range.h"

namespace stretto::runtime {

struct StatePair {
  std::string input, output;
  int input_index = -1, output_index = -1;  // among those of the model
  // Along this axis the output is the input with new places behind it, as of a cache of keys; -1:
  // the output has the input's shape and replaces it, as of a recurrent layer.
  int64_t axis = -1;
  bool operator==(const StatePair&) const = default;
};

// Pairs by what exporters call them: past_key_values.0.key and present.0.key, past_x and present_x,
// x_in and x_out, and the like.
std::map<std::string, std::string> find_pairs(const std::vector<std::string>& inputs,
                                              const std::vector<std::string>& outputs);

// Looks at how the graph makes each output. Throws InvalidArgument naming a pair of which neither
// holds, or that names no input or output.
std::vector<StatePair> describe_pairs(const ir::Graph& graph,
                                      const std::map<std::string, std::string>& pairs);

// The outputs that grow are no longer made: `Concat(past, new)` becomes stretto.Append, and `past`
// becomes memory of `rows` places along its axis, of which the graph's own number are used. Whoever
// runs the graph passes memory whose first place is the first that is used. Throws Unsupported for
// one that appends another number of places than `places`.
void append_in_place(ir::Graph& graph, const std::vector<StatePair>& pairs, int64_t rows,
                     int64_t places);

}  // namespace stretto::runtime
