#include "stretto/import/onnx/survey.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "stretto/import/onnx/compose.h"
#include "stretto/import/onnx/upgrade.h"
#include "stretto/ir/host/host.h"
#include "stretto/ir/operator.h"

namespace stretto::onnx {
namespace {

struct Missing {
  int count = 0;
  std::string first;
};
using MissingByOperator = std::map<std::string, Missing>;

std::string reason(std::string_view domain) {
  if (domain == "com.microsoft.nchwc" || domain == "com.ms.internal.nhwc") {
    return ": a layout that ONNX Runtime's optimiser writes for one machine; use the model that it "
           "took, or save it at ORT_ENABLE_EXTENDED";
  }
  if (domain == "com.microsoft") {
    return ": an operator of ONNX Runtime's own; use the model that its optimiser or quantiser "
           "took";
  }
  if (!domain.empty()) return ": an operator of domain " + std::string(domain);
  return "";
}

}  // namespace

bool is_straight(const WireNode& node, int64_t opset) {
  if (find_composition(node.domain, node.op) != nullptr) return true;
  if (!node.domain.empty()) return false;
  if (node.op == "Constant" || node.op == "If") return true;
  return ir::find_operator(upgraded_name(node.op, opset)) != nullptr;
}

bool is_between_stages(const WireNode& node) {
  return (node.domain.empty() && node.op == "SequenceMap") ||
         ir::find_host_operator(node.domain, node.op) != nullptr;
}

namespace {

class Survey {
 public:
  explicit Survey(const FunctionIndex& functions) : functions_(functions) {}

  MissingByOperator run(const std::vector<WireNode>& nodes, int64_t opset) {
    look_at(nodes, opset);
    // A list instead of recursion: functions may call each other in any depth.
    while (!waiting_.empty()) {
      const WireFunction* function = waiting_.back();
      waiting_.pop_back();
      look_at(function->nodes, default_opset(function->opsets, opset));
    }
    return std::move(missing_);
  }

 private:
  void look_at(const std::vector<WireNode>& nodes, int64_t opset) {
    for (const WireNode& node : nodes) {
      if (const WireFunction* function = functions_.find(node)) {
        if (seen_.insert(function).second) waiting_.push_back(function);
      } else if (!is_straight(node, opset) && !is_between_stages(node)) {
        const std::string name =
            node.domain.empty() ? std::string(node.op) : fmt::format("{}.{}", node.domain, node.op);
        Missing& missing = missing_[name];
        if (missing.count++ == 0) {
          const std::string_view output = node.outputs.empty() ? "" : node.outputs[0];
          missing.first =
              fmt::format("\"{}\"{}", node.name.empty() ? output : node.name, reason(node.domain));
        }
      }
    }
  }

  const FunctionIndex& functions_;
  MissingByOperator missing_;
  std::vector<const WireFunction*> waiting_;
  std::unordered_set<const WireFunction*> seen_;
};

}  // namespace

FunctionIndex::FunctionIndex(const Source& source, const std::vector<WireFunction>& functions) {
  for (const WireFunction& function : functions) {
    const auto key = std::tuple(function.domain, function.name, function.overload);
    if (!functions_.emplace(key, &function).second) {
      source.fail(function.position, "function {} is defined twice", function.name);
    }
  }
}

const WireFunction* FunctionIndex::find(const WireNode& node) const {
  if (functions_.empty()) return nullptr;
  // For operators of its own ONNX lets a model carry a body as well; ours is the better one.
  if (node.domain.empty() &&
      (node.op == "Constant" || node.op == "If" || is_between_stages(node) ||
       ir::find_operator(node.op) != nullptr || find_composition("", node.op) != nullptr)) {
    return nullptr;
  }
  const auto at = functions_.find(std::tuple(node.domain, node.op, node.overload));
  return at == functions_.end() ? nullptr : at->second;
}

void check_operators(const Source& source, const std::vector<WireNode>& nodes, const Opsets& opsets,
                     const FunctionIndex& functions) {
  const MissingByOperator missing =
      Survey(functions).run(nodes, default_opset(opsets, kNewestOpset));
  if (missing.empty()) return;
  std::string text =
      missing.size() == 1
          ? fmt::format("{}: an operator is not supported:", source.name)
          : fmt::format("{}: {} operators are not supported:", source.name, missing.size());
  for (const auto& [name, found] : missing) {
    text += fmt::format("\n  {} ({} {}, first {})", name, found.count,
                        found.count == 1 ? "node" : "nodes", found.first);
  }
  throw Unsupported(text);
}

int64_t default_opset(const Opsets& opsets, int64_t fallback) {
  const auto at = opsets.find("");
  return at == opsets.end() ? fallback : at->second;
}

}  // namespace stretto::onnx
