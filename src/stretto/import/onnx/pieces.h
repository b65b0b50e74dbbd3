// A graph, branch, loop body or function that is imported piece by piece, because some of its nodes
// need values that are known only when the model runs, or work on what is no tensor
// (docs/design/control_flow.md).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/import/model.h"
#include "stretto/import/onnx/attributes.h"
#include "stretto/import/onnx/survey.h"

namespace stretto::onnx {

// What a name that a piece uses stands for.
struct Meaning {
  enum class Kind : uint8_t {
    kUnknown,   // nothing has that name
    kAbsent,    // an optional input that was not given
    kTensor,    // a tensor of this type and shape
    kConstant,  // a tensor whose value is known
    kOther,     // strings, a sequence, an optional value
  };
  Kind kind = Kind::kUnknown;
  DType dtype = DType::kUndefined;
  Shape shape;
  Tensor constant;
};
using Lookup = std::function<Meaning(std::string_view name)>;

// As many nodes of a body as make one straight-line program.
struct Piece {
  ImportedModel model;                   // no nodes where nothing is left to compute
  std::vector<std::string_view> inputs;  // of the graph, in order
  std::vector<std::pair<std::string_view, size_t>> outputs;         // name, output of the graph
  std::vector<std::pair<std::string_view, AnyValue>> constants;     // whose values are known now
  std::vector<std::pair<std::string_view, std::string_view>> same;  // a name, and an older one
  std::vector<size_t> ready;  // nodes that come next, all of whose inputs are there
  std::vector<size_t> later;  // others, in order
};

class Body {
 public:
  struct Node {
    WireNode wire;
    std::vector<std::string_view> reads;  // what it and the graphs in it use from around it
    bool is_call = false;                 // of a function of the model
  };

  // All objects are needed as long as the result.
  static std::unique_ptr<Body> of_model(const Source& source, const WireModel& model,
                                        TensorReader& tensors);
  ~Body();

  const std::vector<WireInput>& inputs() const { return graph_.inputs; }  // those that are fed
  const std::vector<std::string_view>& outputs() const { return graph_.outputs; }
  const std::vector<WireInput>& output_types() const { return graph_.output_types; }
  const std::vector<Node>& nodes() const { return nodes_; }
  int64_t opset() const { return opset_; }
  const char* position() const { return graph_.position; }
  const Source& source() const;

  // An initialiser of this graph or a Constant of strings, if it has one of that name.
  std::optional<AnyValue> constant(std::string_view name) const;
  bool has_constant(std::string_view name) const;

  // Imports what it can of these nodes. Throws as Reader::import, but NotStraight never.
  Piece piece(std::span<const size_t> nodes, const Lookup& lookup) const;
  // The same of some nodes alone: all their outputs are wanted.
  Piece single(std::span<const size_t> nodes, const Lookup& lookup) const;

  // The attributes of a node; those that are strings, types and graphs as ir/host wants them.
  ir::Attributes attributes(size_t node) const;
  // A graph that is an attribute of a node; null if it has none of that name.
  const Body* graph(size_t node, std::string_view attribute) const;
  // The body of the function that a node calls.
  const Body& function(size_t node) const;

 private:
  friend class Builder;
  struct Context;
  Body(std::shared_ptr<Context> context, WireGraph graph, int64_t opset, int depth,
       std::string prefix, const AttributeScope* attributes);
  void find_reads(Node& node) const;
  Piece import(std::span<const size_t> nodes, const Lookup& lookup, bool all) const;

  const std::shared_ptr<Context> context_;
  WireGraph graph_;
  const int64_t opset_;
  const int depth_;
  const std::string prefix_;
  AttributeScope own_attributes_;  // of a function
  const AttributeScope* attributes_;
  std::vector<Node> nodes_;
  std::map<std::string_view, WireTensor> initializers_;
  std::map<std::string_view, Strings> strings_;  // of Constants
  mutable std::map<std::pair<size_t, std::string_view>, std::unique_ptr<Body>> inner_;
};

}  // namespace stretto::onnx
