// Questions that several passes ask about a node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/ir/fused.h"
#include "stretto/passes/rewriter.h"

namespace stretto::passes {

// Operator, attributes and number of outputs of a node, exactly: two nodes of one text do the same
// to the same inputs. May hold any byte.
std::string operation(const Node& node);

// The number in a one-element float constant.
std::optional<double> scalar(const Rewriter& graph, ValueId id);
// |a - b| <= 1e-6 max(|a|, |b|): exporters write constants such as 1 / sqrt(2) in float32.
bool close(double a, double b);
// Every element of a small constant equals `value`. False for large constants and non-constants.
bool all_equal(const Rewriter& graph, ValueId id, double value);

// Node n as x (op) c with a scalar c and a result of x's type and shape. Add and Mul take the
// scalar on either side, Sub and Div on the right.
struct WithScalar {
  ValueId x = kNone;
  double c = 0;
};
std::optional<WithScalar> with_scalar(const Rewriter& graph, int n);

// Integers from input i when constant, else from the attribute when present.
std::optional<std::vector<int64_t>> integers(const Rewriter& graph, int n, size_t i,
                                             std::string_view attribute);

// Non-negative, ascending axes of a Reduce* node; nothing when they are not known.
std::optional<std::vector<int64_t>> reduce_axes(const Rewriter& graph, int n);

// Permutation of a Transpose node (ONNX's default reverses).
std::vector<int64_t> permutation(const Rewriter& graph, int n);

// Activation of an epilogue (tensor/elementwise.h) when node n is one applied to a single
// value.
struct ActivationMatch {
  std::string name;
  double alpha = 0, beta = 0;
  ValueId x = kNone;
};
std::optional<ActivationMatch> match_activation(const Rewriter& graph, int n);

// Node n as steps of a fused loop over `inputs`, when it is elementwise and all of it is float32 or
// else, with kFloat32AndBool, bool. Truth is 1 or 0 in a loop, and so is a result of type bool; a
// Cast between the two types is then ToBool(x0) or Copy(x0).
enum class LoopTypes : uint8_t { kFloat32, kFloat32AndBool };
struct ElementwiseMatch {
  std::vector<ir::ElementwiseStep> steps;
  std::vector<ValueId> inputs;
};
std::optional<ElementwiseMatch> match_elementwise(const Rewriter& graph, int n,
                                                  LoopTypes types = LoopTypes::kFloat32);

}  // namespace stretto::passes
