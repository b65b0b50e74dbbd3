// Common subexpressions: of two nodes with the same operator, attributes and inputs one stays.
// Small constants count as the same input when their contents are.
#include <cstring>
#include <unordered_map>

#include "stretto/ir/operator.h"
#include "stretto/passes/pass_list.h"
#include "stretto/passes/rewriter.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"common-subexpression"};
constexpr size_t kComparedBytes = 256;

void append(std::string& key, const void* data, size_t size) {
  key.append(reinterpret_cast<const char*>(&size), sizeof size);
  key.append(static_cast<const char*>(data), size);
}

void append_tensor(std::string& key, const Tensor& tensor) {
  key += dtype_name(tensor.dtype());
  key += shape_text(tensor.shape());
  if (tensor.bytes() <= kComparedBytes) {
    append(key, tensor.data(), tensor.bytes());
  } else {
    const void* address = tensor.data();
    append(key, &address, sizeof address);
  }
}

void append_attribute(std::string& key, const ir::Attribute& attribute) {
  const auto append_list = [&](const auto& list) {
    append(key, list.data(), list.size() * sizeof(list[0]));
  };
  key += static_cast<char>('a' + attribute.index());
  if (const auto* v = std::get_if<int64_t>(&attribute)) append(key, v, sizeof *v);
  if (const auto* v = std::get_if<double>(&attribute)) append(key, v, sizeof *v);
  if (const auto* v = std::get_if<std::string>(&attribute)) append_list(*v);
  if (const auto* v = std::get_if<std::vector<int64_t>>(&attribute)) append_list(*v);
  if (const auto* v = std::get_if<std::vector<double>>(&attribute)) append_list(*v);
  if (const auto* v = std::get_if<std::vector<std::string>>(&attribute)) {
    for (const std::string& text : *v) append_list(text);
  }
  if (const auto* v = std::get_if<Tensor>(&attribute)) append_tensor(key, *v);
}

std::string key_of(const Rewriter& graph, const Node& node) {
  std::string key(node.op->name);
  for (const auto& [name, value] : node.attributes.all()) {
    append(key, name.data(), name.size());
    append_attribute(key, value);
  }
  for (ValueId id : node.inputs) {
    const Tensor* constant = graph.constant(id);
    key += constant != nullptr ? 'c' : 'v';
    if (constant != nullptr) {
      append_tensor(key, *constant);
    } else {
      append(key, &id, sizeof id);
    }
  }
  for (ValueId id : node.outputs) key += id == kNone ? '0' : '1';
  return key;
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  std::unordered_map<std::string, int> first;
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!rewriter.alive(n)) continue;
    const auto [at, fresh] = first.try_emplace(key_of(rewriter, rewriter.node(n)), n);
    if (fresh) continue;
    const std::vector<ValueId> from = rewriter.node(n).outputs;
    const std::vector<ValueId> to = rewriter.node(at->second).outputs;
    bool possible = rewriter.alive(at->second);
    for (size_t i = 0; i < from.size(); ++i) {
      possible = possible && (from[i] == kNone || rewriter.can_replace(from[i], to[i]));
    }
    if (!possible || !context.allow("common-subexpression", rewriter.node(n).name)) continue;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != kNone) rewriter.replace(from[i], to[i]);
    }
  }
  rewriter.finish();
}

}  // namespace

const Pass kDeduplicate{
    .name = "deduplicate", .summary = "compute each thing once", .rules = kRules, .run = run};

}  // namespace stretto::passes
