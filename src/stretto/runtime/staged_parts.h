// What a run of a staged model consists of; for the sources of Staged only.
#pragma once

#include <unordered_map>

#include "stretto/ir/host/host.h"
#include "stretto/runtime/staged.h"

namespace stretto::runtime {

struct Staged::Entry {
  AnyValue value;
  bool known = false;  // a constant of the graphs that use it
};

// What names mean in a body while it runs.
struct Staged::Environment {
  const Environment* outer = nullptr;  // of a branch or loop body, which sees the names around it
  const onnx::Body* body = nullptr;
  std::unordered_map<std::string_view, Entry> own;

  // Null also for initialisers of bodies that no stage has put here yet.
  const Entry* find(std::string_view name) const {
    for (const Environment* at = this; at != nullptr; at = at->outer) {
      const auto found = at->own.find(name);
      if (found != at->own.end()) return &found->second;
      // It hides what has this name outside.
      if (at->outer != nullptr && at->body->has_constant(name)) return nullptr;
    }
    return nullptr;
  }

  // The next two under the source's lock.
  std::optional<AnyValue> initializer(std::string_view name) const;
  onnx::Meaning meaning(std::string_view name) const;
};

// What a stage was made for: of one name in the environment.
struct Staged::KeyPart {
  enum class Kind : uint8_t { kNothing, kAbsent, kTensor, kKnown, kOther } kind = Kind::kNothing;
  DType dtype = DType::kUndefined;
  Shape shape;
  Tensor known;

  static KeyPart of(const Entry* entry);
  bool fits(const Entry* entry) const;
};

struct Staged::Step {
  enum class Kind : uint8_t {
    kReference,  // an operator whose result depends on values, by its reference
    kHost,       // an operator on sequences, optional values or strings
    kIf,
    kLoop,
    kScan,
    kSequenceMap,
    kCall,
  };
  size_t node = 0;
  Kind kind = Kind::kReference;
  const ir::HostOperator* host = nullptr;
  ir::Attributes attributes;
};

// What runs without a question: a piece, and the steps behind it.
struct Staged::Stage {
  std::vector<KeyPart> key;           // of the names in Next::reads
  std::shared_ptr<StagePiece> piece;  // null: nothing to compute
  std::vector<std::string_view> inputs;
  std::vector<std::pair<std::string_view, size_t>> outputs;
  std::vector<std::pair<std::string_view, AnyValue>> constants;
  std::vector<std::pair<std::string_view, std::string_view>> same;
  std::vector<Step> steps;
  std::vector<std::string_view> bound;  // become constants of what follows
  std::vector<std::string_view> dead;   // nobody reads them any more
  std::unique_ptr<Next> next;           // null: the body is done
};

// A place in a body where it depends on shapes and constants what comes next.
struct Staged::Next {
  std::vector<size_t> left;             // nodes that are still to be done
  std::vector<std::string_view> reads;  // what they use from the environment
  std::mutex mutex;
  std::vector<std::shared_ptr<Stage>> stages;  // the one used last is the last
};

// One call of the model.
struct Staged::Run {
  Staged& staged;
  const Observer* observer;
  int depth = 0;

  // Does the nodes of a body; its outputs.
  std::vector<AnyValue> body(const onnx::Body& body, Environment& environment);

 private:
  void piece(const Stage& stage, Environment& environment);
  void step(const Step& step, const onnx::Body& body, Environment& environment);
  AnyValue input(const onnx::Body::Node& node, size_t i, const Environment& environment) const;
  std::vector<AnyValue> inputs(const onnx::Body::Node& node, const Environment& environment) const;
  std::vector<AnyValue> reference(const Step& step, const onnx::Body& body, const Environment& env);
  std::vector<AnyValue> on_strings(const Step& step, const onnx::Body& body,
                                   const Environment& env);
  std::vector<AnyValue> evaluate(const Step& step, const onnx::Body& body,
                                 const std::function<const AnyValue*(std::string_view)>& values);
  std::vector<AnyValue> host(const Step& step, const onnx::Body& body, const Environment& env);
  // staged_control.cc
  std::vector<AnyValue> branch(const Step& step, const onnx::Body& body, const Environment& env);
  std::vector<AnyValue> loop(const Step& step, const onnx::Body& body, const Environment& env);
  std::vector<AnyValue> scan(const Step& step, const onnx::Body& body, const Environment& env);
  std::vector<AnyValue> sequence_map(const Step& step, const onnx::Body& body,
                                     const Environment& env);
  std::vector<AnyValue> call(const Step& step, const onnx::Body& body, const Environment& env);
  std::vector<AnyValue> inner(const onnx::Body& graph, const Environment* outer,
                              std::vector<AnyValue> values);
  const onnx::Body& graph_of(const Step& step, const onnx::Body& body, std::string_view name);
  // What the turns of a loop made, joined along a new axis; and what that is without turns, of
  // which `given` would have been the first's inputs.
  static AnyValue stacked(const std::vector<AnyValue>& turns, int64_t axis, bool reversed,
                          const std::string& label);
  AnyValue no_rows(const onnx::Body& graph, size_t output, const Environment& env,
                   const std::vector<AnyValue>& given, int64_t axis,
                   const std::string& label) const;
};

// "Loop \"name\"", for errors.
std::string node_label(const onnx::Body& body, const onnx::Body::Node& node);

}  // namespace stretto::runtime
