#include "stretto/runtime/staged.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "stretto/ir/operator.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/runtime/staged_parts.h"

namespace stretto::runtime {
namespace {

using onnx::Body;
using onnx::Meaning;

// Stages with little work are many where a loop makes tensors grow; others have memory of their own
// that counts.
constexpr size_t kKeptHeavy = 16, kKept = 1024;

// What a second thread cannot make faster.
constexpr double kLightFlops = 4e5;
constexpr int64_t kLightBytes = int64_t{512} << 10;

// Values that may become constants of what follows.
constexpr int64_t kMostBoundElements = 64;

// Operators with kernels whose results depend on the values of small inputs: those become
// constants, so that the kernels still run. All others that need values run by their reference
// between the pieces: they move data, and no program has to be made for new values.
constexpr std::string_view kBinding[] = {
    "AffineGrid", "Col2Im",    "DFT",          "Dropout",         "MaxUnpool",
    "ReduceL1",   "ReduceL2",  "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceProd",   "ReduceSum",       "ReduceSumSquare",
    "Resize",     "STFT",      "TopK",         "Upsample"};

bool binds(const onnx::WireNode& node) {
  return node.domain.empty() &&
         std::find(std::begin(kBinding), std::end(kBinding), node.op) != std::end(kBinding);
}

bool same_constant(const Tensor& a, const Tensor& b) {
  constexpr size_t kCompared = 4096;
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return a.data() == b.data() ||
         (a.bytes() <= kCompared && std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

double bytes_made(const ir::Graph& graph) {
  double sum = 0;
  for (const ir::Node& node : graph.nodes) {
    for (ir::ValueId id : node.outputs) {
      if (id == ir::kNone || graph.value(id).is_constant()) continue;
      sum += static_cast<double>(element_count(*graph.value(id).shape)) *
             static_cast<double>(dtype_bytes(graph.value(id).dtype));
    }
  }
  return sum;
}

}  // namespace

std::string node_label(const Body&, const Body::Node& node) {
  const onnx::WireNode& wire = node.wire;
  const std::string_view output = wire.outputs.empty() ? "" : wire.outputs[0];
  return fmt::format("{} \"{}\"", wire.op, wire.name.empty() ? output : wire.name);
}

std::optional<AnyValue> Staged::Environment::initializer(std::string_view name) const {
  for (const Environment* at = this; at != nullptr; at = at->outer) {
    if (auto value = at->body->constant(name)) return value;
  }
  return std::nullopt;
}

Meaning Staged::Environment::meaning(std::string_view name) const {
  Meaning m;
  const Entry* entry = find(name);
  std::optional<AnyValue> constant;
  if (entry == nullptr && !(constant = initializer(name))) return m;
  const AnyValue& value = entry != nullptr ? entry->value : *constant;
  m.kind = value.is_none()                     ? Meaning::Kind::kAbsent
           : !value.is_tensor()                ? Meaning::Kind::kOther
           : entry != nullptr && !entry->known ? Meaning::Kind::kTensor
                                               : Meaning::Kind::kConstant;
  if (!value.is_tensor()) return m;
  m.dtype = value.tensor().dtype();
  m.shape = value.tensor().shape();
  if (m.kind == Meaning::Kind::kConstant) m.constant = value.tensor();
  return m;
}

Staged::KeyPart Staged::KeyPart::of(const Entry* entry) {
  KeyPart part;
  if (entry == nullptr) return part;
  const AnyValue& value = entry->value;
  if (!value.is_tensor()) {
    part.kind = value.is_none() ? Kind::kAbsent : Kind::kOther;
    return part;
  }
  part.kind = entry->known ? Kind::kKnown : Kind::kTensor;
  part.dtype = value.tensor().dtype();
  part.shape = value.tensor().shape();
  if (entry->known) part.known = value.tensor();
  return part;
}

bool Staged::KeyPart::fits(const Entry* entry) const {
  if (entry == nullptr) return kind == Kind::kNothing;
  const AnyValue& value = entry->value;
  if (value.is_none()) return kind == Kind::kAbsent;
  if (!value.is_tensor()) return kind == Kind::kOther;
  if (entry->known) return kind == Kind::kKnown && same_constant(value.tensor(), known);
  return kind == Kind::kTensor && value.tensor().dtype() == dtype &&
         value.tensor().shape() == shape;
}

Staged::Staged(std::shared_ptr<StagedSource> source, std::vector<StagedInput> inputs,
               std::shared_ptr<Siblings> siblings, Options options)
    : source_(std::move(source)),
      inputs_(std::move(inputs)),
      siblings_(std::move(siblings)),
      options_(options) {}

Staged::~Staged() = default;

std::vector<std::string> Staged::output_names() const {
  return {source_->body->outputs().begin(), source_->body->outputs().end()};
}

void Staged::check(std::span<const AnyValue> inputs) const {
  if (inputs.size() != inputs_.size()) {
    throw_invalid("expected {} inputs, got {}", inputs_.size(), inputs.size());
  }
  std::map<std::string_view, std::pair<int64_t, std::string_view>> named;  // size, input
  for (size_t i = 0; i < inputs.size(); ++i) {
    const StagedInput& input = inputs_[i];
    if (!input.is_tensor) continue;
    if (!inputs[i].is_tensor()) {
      throw_invalid("input {}: expected a tensor of {}, got {}", input.name,
                    dtype_name(input.dtype), inputs[i].kind());
    }
    const Tensor& tensor = inputs[i].tensor();
    if (tensor.dtype() != input.dtype) {
      throw_invalid("input {}: expected {}, got {}", input.name, dtype_name(input.dtype),
                    dtype_name(tensor.dtype()));
    }
    if (!input.shape) continue;
    const Shape& shape = tensor.shape();
    bool fits = shape.size() == input.shape->size();
    for (size_t axis = 0; fits && axis < shape.size(); ++axis) {
      const Dimension& d = (*input.shape)[axis];
      fits = shape[axis] >= d.least && shape[axis] <= d.most;
    }
    if (!fits) {
      throw_invalid("input {}: expected shape {}, got {}", input.name,
                    shape_range_text(*input.shape), shape_text(shape));
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::string& name = (*input.shape)[axis].name;
      if (name.empty()) continue;
      const auto [at, fresh] = named.try_emplace(name, shape[axis], input.name);
      if (fresh || at->second.first == shape[axis]) continue;
      throw_invalid("input {}: dimension {} is {} here and {} in input {}", input.name, name,
                    shape[axis], at->second.first, at->second.second);
    }
  }
}

std::vector<AnyValue> Staged::run(std::span<const AnyValue> inputs, const Observer* observer) {
  check(inputs);
  const Body& body = *source_->body;
  Environment environment{.body = &body, .own = {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    environment.own[body.inputs()[i].name] = {inputs[i], false};
  }
  return Run{*this, observer}.body(body, environment);
}

Staged::Next& Staged::root_of(const Body& body) {
  const std::lock_guard lock(source_->mutex);
  std::unique_ptr<Next>& root = roots_[&body];
  if (!root) {
    root = std::make_unique<Next>();
    std::set<std::string_view> reads;
    for (size_t i = 0; i < body.nodes().size(); ++i) {
      root->left.push_back(i);
      reads.insert(body.nodes()[i].reads.begin(), body.nodes()[i].reads.end());
    }
    root->reads.assign(reads.begin(), reads.end());
  }
  return *root;
}

std::shared_ptr<Staged::Stage> Staged::find(Next& next, const Environment& environment) {
  std::vector<const Entry*> entries;
  entries.reserve(next.reads.size());
  for (std::string_view name : next.reads) entries.push_back(environment.find(name));
  const std::lock_guard lock(next.mutex);
  for (auto at = next.stages.rbegin(); at != next.stages.rend(); ++at) {
    const std::vector<KeyPart>& key = (*at)->key;
    bool fits = true;
    for (size_t i = 0; fits && i < key.size(); ++i) fits = key[i].fits(entries[i]);
    if (!fits) continue;
    if (at != next.stages.rbegin()) std::rotate(at.base() - 1, at.base(), next.stages.end());
    return next.stages.back();
  }
  return nullptr;
}

std::shared_ptr<StagePiece> Staged::make_piece(ImportedModel model) {
  auto piece = std::make_shared<StagePiece>();
  piece->flops = ir::flops(model.graph);
  const double bytes = bytes_made(model.graph);
  piece->light = piece->flops <= kLightFlops && bytes <= static_cast<double>(kLightBytes);
  if (options_.reference || options_.keep_graphs) {
    piece->graph = std::make_shared<const ir::Graph>(model.graph);
  }
  if (options_.reference) {
    check_memory(model.graph);
    return piece;
  }
  kernels::Target target = options_.target;
  if (piece->light) target.threads = 1;
  piece->program = siblings_->compile(std::move(model), target, {}, !piece->light);
  piece->pool = std::make_shared<ExecutorPool>(*piece->program);
  ++programs_;
  const int64_t arena = piece->program->arena_bytes;
  for (int64_t most = memory_bytes_; most < arena;) {
    if (memory_bytes_.compare_exchange_weak(most, arena)) break;
  }
  return piece;
}

// Under the source's lock.
std::shared_ptr<Staged::Stage> Staged::make(const Body& body, Next& next,
                                            const Environment& environment) {
  const auto meaning = [&](std::string_view name) { return environment.meaning(name); };
  onnx::Piece piece = body.piece(next.left, meaning);
  auto stage = std::make_shared<Stage>();
  for (std::string_view name : next.reads) {
    stage->key.push_back(KeyPart::of(environment.find(name)));
  }

  // Elements of a value that may be bound; -1: there is none that could.
  const auto elements = [&](std::string_view name) -> int64_t {
    for (const auto& [output, place] : piece.outputs) {
      if (output != name) continue;
      const ir::Graph& graph = piece.model.graph;
      return element_count(*graph.value(graph.outputs[place]).shape);
    }
    const Entry* entry = environment.find(name);
    for (const auto& [output, older] : piece.same) {
      if (output == name) entry = environment.find(older);
    }
    if (entry == nullptr || entry->known || !entry->value.is_tensor()) return -1;
    return entry->value.tensor().count();
  };
  std::vector<size_t> left = piece.later;
  for (const size_t index : piece.ready) {
    const Body::Node& node = body.nodes()[index];
    const onnx::WireNode& wire = node.wire;
    bool waits = false;
    if (binds(wire) && !node.is_call) {
      for (size_t i = 1; i < wire.inputs.size(); ++i) {
        const int64_t count = wire.inputs[i].empty() ? -1 : elements(wire.inputs[i]);
        if (count < 0 || count > kMostBoundElements) continue;
        stage->bound.push_back(wire.inputs[i]);
        waits = true;
      }
    }
    if (waits) {
      left.push_back(index);
      continue;
    }
    Step step{.node = index, .attributes = {}};
    using Kind = Step::Kind;
    const bool standard = wire.domain.empty();
    step.host = ir::find_host_operator(wire.domain, wire.op);
    step.kind = node.is_call                           ? Kind::kCall
                : standard && wire.op == "If"          ? Kind::kIf
                : standard && wire.op == "Loop"        ? Kind::kLoop
                : standard && wire.op == "Scan"        ? Kind::kScan
                : standard && wire.op == "SequenceMap" ? Kind::kSequenceMap
                : step.host != nullptr                 ? Kind::kHost
                                                       : Kind::kReference;
    if (step.kind == Kind::kHost || step.kind == Kind::kScan) {
      step.attributes = body.attributes(index);
    }
    stage->steps.push_back(std::move(step));
  }
  std::sort(left.begin(), left.end());
  STRETTO_CHECK(left.empty() || !stage->steps.empty() || !stage->bound.empty(),
                "{}: nothing of {} nodes can go on", body.source().name, left.size());

  std::set<std::string_view> wanted(body.outputs().begin(), body.outputs().end());
  if (!left.empty()) {
    std::set<std::string_view> reads;
    for (const size_t index : left) {
      reads.insert(body.nodes()[index].reads.begin(), body.nodes()[index].reads.end());
    }
    wanted.insert(reads.begin(), reads.end());
    stage->next = std::make_unique<Next>();
    stage->next->left = left;
    stage->next->reads.assign(reads.begin(), reads.end());
  }
  stage->inputs = std::move(piece.inputs);
  stage->outputs = std::move(piece.outputs);
  stage->constants = std::move(piece.constants);
  stage->same = std::move(piece.same);
  // Steps find initialisers in the environment, and so does whoever takes the outputs.
  std::set<std::string_view> direct(body.outputs().begin(), body.outputs().end());
  for (const Step& step : stage->steps) {
    const Body::Node& node = body.nodes()[step.node];
    direct.insert(node.reads.begin(), node.reads.end());
  }
  for (std::string_view name : direct) {
    if (environment.find(name) != nullptr) continue;
    if (auto value = environment.initializer(name))
      stage->constants.emplace_back(name, std::move(*value));
  }
  std::set<std::string_view> alive;
  for (const auto& [name, entry] : environment.own) alive.insert(name);
  for (const auto& [name, place] : stage->outputs) alive.insert(name);
  for (const auto& [name, value] : stage->constants) alive.insert(name);
  for (const auto& [name, older] : stage->same) alive.insert(name);
  for (const Step& step : stage->steps) {
    const auto& outputs = body.nodes()[step.node].wire.outputs;
    alive.insert(outputs.begin(), outputs.end());
  }
  std::set_difference(alive.begin(), alive.end(), wanted.begin(), wanted.end(),
                      std::back_inserter(stage->dead));
  if (!piece.model.graph.nodes.empty()) stage->piece = make_piece(std::move(piece.model));

  const std::lock_guard lock(next.mutex);
  next.stages.push_back(stage);
  const auto heavy = [](const std::shared_ptr<Stage>& s) { return s->piece && !s->piece->light; };
  const auto most_heavy = static_cast<std::ptrdiff_t>(kKeptHeavy);
  if (std::count_if(next.stages.begin(), next.stages.end(), heavy) > most_heavy) {
    next.stages.erase(std::find_if(next.stages.begin(), next.stages.end(), heavy));
  } else if (next.stages.size() > kKept) {
    next.stages.erase(next.stages.begin());
  }
  return stage;
}

}  // namespace stretto::runtime
