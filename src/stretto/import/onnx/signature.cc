#include "stretto/import/onnx/signature.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/upgrade.h"

namespace stretto::onnx {
namespace {

struct Row {
  std::string_view domain, op, inputs, outputs, attributes;
};

constexpr Row kRows[] = {
#include "stretto/import/onnx/signatures.inc"
};

// A sequence or a graph instead of a tensor is what keeps these from being called.
constexpr std::string_view kNotOfTensors[] = {"If", "Loop", "OptionalGetElement",
                                              "OptionalHasElement", "Scan"};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    list.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

std::vector<SignaturePort> ports(std::string_view text) {
  std::vector<SignaturePort> list;
  for (std::string_view word : words(text)) {
    SignaturePort port;
    if (word.ends_with("...")) {
      port.arity = ir::Arity::kVariadic;
      word.remove_suffix(3);
    } else if (word.ends_with('?')) {
      port.arity = ir::Arity::kOptional;
      word.remove_suffix(1);
    }
    port.name = word;
    list.push_back(std::move(port));
  }
  return list;
}

std::optional<ir::AttributeKind> kind_of(std::string_view name) {
  static constexpr std::pair<std::string_view, ir::AttributeKind> kKinds[] = {
      {"int", ir::AttributeKind::kInt},       {"float", ir::AttributeKind::kFloat},
      {"string", ir::AttributeKind::kString}, {"ints", ir::AttributeKind::kInts},
      {"floats", ir::AttributeKind::kFloats}, {"strings", ir::AttributeKind::kStrings},
      {"tensor", ir::AttributeKind::kTensor},
  };
  for (const auto& [text, kind] : kKinds) {
    if (text == name) return kind;
  }
  return std::nullopt;
}

// "group:int=1", "axis:int!", "pads:ints".
SignatureAttribute attribute_of(std::string_view word) {
  SignatureAttribute attribute;
  const size_t colon = word.find(':');
  attribute.name = word.substr(0, colon);
  std::string_view rest = word.substr(colon + 1);
  if (const size_t equals = rest.find('='); equals != std::string_view::npos) {
    attribute.fallback = rest.substr(equals + 1);
    rest = rest.substr(0, equals);
  }
  attribute.required = rest.ends_with('!');
  if (attribute.required) rest.remove_suffix(1);
  attribute.kind = kind_of(rest);
  return attribute;
}

bool runs(const Row& row) {
  if (std::find(std::begin(kNotOfTensors), std::end(kNotOfTensors), row.op) !=
      std::end(kNotOfTensors)) {
    return false;
  }
  if (find_composition(row.domain, row.op) != nullptr) return true;
  return row.domain.empty() && row.op != "Constant" &&
         ir::find_operator(upgraded_name(row.op, kNewestOpset)) != nullptr;
}

Signature signature_of(const Row& row) {
  Signature signature{.domain = row.domain,
                      .op = row.op,
                      .inputs = ports(row.inputs),
                      .outputs = ports(row.outputs)};
  for (std::string_view word : words(row.attributes)) {
    signature.attributes.push_back(attribute_of(word));
  }
  return signature;
}

}  // namespace

std::span<const Signature> signatures() {
  static const std::vector<Signature> all = [] {
    std::vector<Signature> list;
    for (const Row& row : kRows) {
      if (runs(row)) list.push_back(signature_of(row));
    }
    std::sort(list.begin(), list.end(),
              [](const Signature& a, const Signature& b) { return a.op < b.op; });
    return list;
  }();
  return all;
}

const Signature* find_signature(std::string_view op) {
  const auto all = signatures();
  const auto at = std::lower_bound(all.begin(), all.end(), op,
                                   [](const Signature& s, std::string_view n) { return s.op < n; });
  return at == all.end() || at->op != op ? nullptr : &*at;
}

int find_input(const Signature& signature, std::string_view name) {
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const SignaturePort& port = signature.inputs[i];
    if (port.name == name && port.arity != ir::Arity::kVariadic) return static_cast<int>(i);
  }
  return -1;
}

int find_attribute(const Signature& signature, std::string_view name) {
  for (size_t i = 0; i < signature.attributes.size(); ++i) {
    if (signature.attributes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int default_outputs(const Signature& signature, const ir::Attributes& attributes) {
  int count = 0;
  for (const SignaturePort& port : signature.outputs) {
    if (port.arity == ir::Arity::kRequired) ++count;
    if (port.arity == ir::Arity::kVariadic) {
      return static_cast<int>(attributes.integer("num_outputs", 0));
    }
  }
  return std::max(count, 1);
}

}  // namespace stretto::onnx
