// Padding-free programs: which rows of a batch are real tokens is known from a mask when the model
// runs, and whatever works on each token by itself then works on those rows only.
//
// A value of shape [batch, length, ...], or [batch * length, ...], is packed when it has `rows`
// rows instead: those of the real tokens, one sample behind the other, and zeros behind them. See
// docs/design/ragged.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stretto/ir/graph.h"

namespace stretto::passes {

struct Ragged {
  std::string mask;  // the graph's input [batch, length]: 0 for padding, everything else is a token
  int64_t rows = 0;  // room for tokens, at most batch * length

  // What the pass found.
  int attentions = 0;  // in the graph
  int packed = 0;      // of those
  // Attentions that were not packed and operators that need padded values, as "name (operator)".
  std::vector<std::string> not_packed, unpacked;
  // Whether an attention's mask hides padding and nothing else, by what it is made of; kept from
  // graph to graph because finding out takes a while.
  std::map<std::string, bool>* known = nullptr;
};

// Whether `operand`, the mask of an attention [batch, *, length, length], hides the keys where
// `mask` is 0, and nothing else, from all queries where `mask` is not 0. Evaluates the graph
// between them for several masks, so that it matters little how an exporter writes it.
bool hides_padding(const ir::Graph& graph, ir::ValueId operand, ir::ValueId mask);

}  // namespace stretto::passes
