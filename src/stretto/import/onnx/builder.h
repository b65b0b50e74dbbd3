// Turns the plain structs of a model into a graph: names become values, functions and constant
// branches are expanded, every node is upgraded and inferred.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stretto/import/emitter.h"
#include "stretto/import/onnx/attributes.h"
#include "stretto/import/onnx/import.h"
#include "stretto/import/onnx/pieces.h"
#include "stretto/import/onnx/survey.h"
#include "stretto/import/onnx/upgrade.h"

namespace stretto::onnx {

// In a scope, instead of a value: named in the file, but never made; and made by what runs between
// the stages of a model.
constexpr ir::ValueId kDropped = -2, kLater = -3;
// And sequences of values that are known: this and all below (known_sequences.cc).
constexpr ir::ValueId kFirstSequence = -16;

class Builder {
 public:
  Builder(const Source& source, const WireModel& model, TensorReader& tensors, ir::Graph& graph)
      : source_(source),
        model_(model),
        tensors_(tensors),
        functions_(source, model.functions),
        emitter_(graph) {}

  void build(const ImportOptions& options, std::vector<std::string>& notes);
  // As many of these nodes of `body` as are straight-line (pieces.cc).
  void build_piece(const Body& body, std::span<const size_t> nodes, const Lookup& lookup, bool all,
                   Piece& piece);

 private:
  // What names mean in a graph, a branch or a function body.
  struct Scope {
    const Scope* outer = nullptr;                // of a branch, which sees the names around it
    const AttributeScope* attributes = nullptr;  // of the enclosing function call
    int64_t opset = 0;
    int depth = 0;
    std::string prefix;  // of names of values and nodes
    std::unordered_map<std::string_view, ir::ValueId> names;
  };

  // The value of a name; of a sequence, use_any() has its number, and use() throws NotStraight.
  ir::ValueId use(const Scope& scope, std::string_view name, const WireNode* node);
  ir::ValueId use_any(const Scope& scope, std::string_view name, const WireNode* node);
  // In a piece: what the names around it mean. Nothing where they mean nothing.
  struct Outside {
    const Lookup& lookup;
    Scope& root;
    Piece& piece;
  };
  std::optional<ir::ValueId> look_outside(const Scope& scope, std::string_view name);
  void finish_piece(const std::set<std::string_view>& wanted, Outside& outside);
  void define(Scope& scope, std::string_view name, ir::ValueId id, const char* position);
  ir::ValueId define_new(Scope& scope, std::string_view name, const char* position);
  void adopt_name(const Scope& scope, std::string_view name, ir::ValueId id, size_t first_new);
  void charge(size_t items, size_t bytes);
  void charge(const Scope& scope, const WireNode& node);

  void add_initializers(Scope& scope, const WireGraph& graph);
  void add_nodes(Scope& scope, const std::vector<WireNode>& nodes);
  void add_node(Scope& scope, const WireNode& node);
  void add_constant(Scope& scope, const WireNode& node, const ir::Attributes& attributes);
  void add_operator(Scope& scope, const WireNode& node, const NodeAttributes& attributes);
  std::vector<ir::ValueId> inline_graph(const Scope& scope, const WireNode& node,
                                        const WireGraph& graph,
                                        const std::vector<ir::ValueId>& inputs);
  void take_results(Scope& scope, const WireNode& node, const PendingNode& pending,
                    size_t first_new);
  void take_branch(Scope& scope, const WireNode& node, const NodeAttributes& attributes);
  void call(Scope& scope, const WireNode& node, const WireFunction& function);
  void add_outputs(const Scope& scope);

  // The first `count` of a list that longer sequences may share.
  struct KnownSequence {
    std::shared_ptr<std::vector<ir::ValueId>> items;
    size_t count = 0;
    std::span<const ir::ValueId> values() const {
      return items ? std::span<const ir::ValueId>(*items).first(count)
                   : std::span<const ir::ValueId>();
    }
  };
  // True if the node works on sequences and was dealt with. Throws NotStraight where only a run can
  // know what its sequence is.
  bool add_known_sequence(Scope& scope, const WireNode& node);
  ir::ValueId add_known(KnownSequence sequence);
  KnownSequence copied(const KnownSequence& sequence);
  static ir::ValueId joined(PendingNode& node, const KnownSequence& sequence);
  KnownSequence split(PendingNode& node);

  const Source& source_;
  const WireModel& model_;
  TensorReader& tensors_;
  FunctionIndex functions_;
  Emitter emitter_;
  Outside* outside_ = nullptr;
  bool unrolling_ = false;
  std::unordered_map<std::string_view, std::string> dropped_;  // why an output is not there
  int64_t expanded_items_ = 0, expanded_bytes_ = 0;
  std::vector<KnownSequence> sequences_;  // by kFirstSequence minus the number in a scope
  int64_t sequence_items_ = 0;            // that were copied
};

}  // namespace stretto::onnx
