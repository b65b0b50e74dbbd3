// Which nodes of a graph can work on packed rows (passes/ragged.h), and what they need for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stretto/passes/ragged.h"
#include "stretto/passes/rewriter.h"

namespace stretto::passes {

// How a value holds the tokens of a batch, if it does.
enum class TokenForm : uint8_t {
  kNone,
  kPair,  // [batch, length, ...]
  kFlat,  // [batch * length, ...]
};

// How a packed node takes one of its inputs.
enum class TokenUse : uint8_t {
  kAsIs,       // all tokens see the same, or the input is absent
  kPacked,     // the packed form of the value
  kRows,       // its rows of the tokens: it is [batch, length, ...] or [batch * length, ...]
  kPositions,  // for each token what its position has: it is [1, length, ...]
  kSamples,    // for each token what its sample has: it is [batch, 1, ...]
};

struct TokenNode {
  TokenForm form = TokenForm::kNone;  // of its outputs; kNone: the node takes padded values
  std::vector<TokenUse> uses;         // per input
};

// One entry per node. A node takes packed rows only where an attention does that is reached from
// it, or reaches it, through such nodes. Fills in what `ragged` reports.
std::vector<TokenNode> plan_ragged(const Rewriter& graph, ValueId mask, Ragged& ragged);

// Leading dimensions that count tokens.
inline size_t leading(TokenForm form) { return form == TokenForm::kPair ? 2 : 1; }

}  // namespace stretto::passes
