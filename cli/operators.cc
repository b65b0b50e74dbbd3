// stretto operators: which ONNX operators a model may have.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "stretto/import/onnx/compose.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/upgrade.h"
#include "stretto/ir/host/host.h"
#include "stretto/ir/operator.h"
#include "stretto/ir/ops/limits.h"
#include "table.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

// One operator as a model's author sees it.
struct OperatorRow {
  const ir::Operator* op = nullptr;  // null for those that the importer resolves
  std::string becomes;               // another operator, where the importer makes it into one
};

// By ONNX's names, which Stretto's own operators do not have.
std::map<std::string, OperatorRow> onnx_operators() {
  std::map<std::string, OperatorRow> rows;
  for (const ir::Operator* op : ir::operators()) {
    if (op->name.find('.') == std::string_view::npos) rows[std::string(op->name)] = {op, ""};
  }
  for (const onnx::UpgradeRow& upgrade : onnx::upgrade_rows()) {
    if (upgrade.becomes.empty()) continue;
    rows[std::string(upgrade.op)] = {ir::find_operator(upgrade.becomes),
                                     std::string(upgrade.becomes)};
  }
  for (const onnx::CompositionRow& composition : onnx::composition_rows()) {
    const std::string domain =
        composition.domain.empty() ? "" : fmt::format("{}.", composition.domain);
    rows[domain + std::string(composition.op)] = {nullptr, "simpler operators"};
  }
  for (const ir::HostOperator& host : ir::host_operators()) {
    const std::string domain = host.domain.empty() ? "" : fmt::format("{}.", host.domain);
    rows.try_emplace(domain + std::string(host.op), OperatorRow{nullptr, "a step between stages"});
  }
  rows.try_emplace("SequenceMap", OperatorRow{nullptr, "a step between stages"});
  rows.try_emplace("If", OperatorRow{nullptr, "the branch that is taken"});
  return rows;
}

std::vector<std::string> type_names(ir::TypeSet types) {
  std::vector<std::string> names;
  for (int i = 0; i < 32; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (types & ir::kStoredTypes & ir::type_bit(dtype)) names.emplace_back(dtype_name(dtype));
  }
  return names;
}

json ports(std::span<const ir::Port> ports) {
  constexpr const char* kArities[] = {"required", "optional", "variadic"};
  json list = json::array();
  for (const ir::Port& port : ports) {
    list.push_back({{"name", port.name},
                    {"dtypes", type_names(port.types)},
                    {"arity", kArities[static_cast<size_t>(port.arity)]}});
  }
  return list;
}

json attributes(std::span<const ir::AttributeSpec> specs) {
  constexpr const char* kKinds[] = {"int",    "float",   "string", "ints",
                                    "floats", "strings", "tensor"};
  json list = json::array();
  for (const ir::AttributeSpec& spec : specs) {
    list.push_back({{"name", spec.name},
                    {"kind", kKinds[static_cast<size_t>(spec.kind)]},
                    {"required", spec.required}});
  }
  return list;
}

std::vector<std::string> limits(const std::string& name) {
  std::vector<std::string> texts;
  for (const ir::OperatorLimit& limit : ir::operator_limits()) {
    if (limit.op == name) texts.emplace_back(limit.text);
  }
  return texts;
}

json to_json(const std::string& name, const OperatorRow& row) {
  json entry{{"name", name},
             {"opsets", {onnx::kOldestOpset, onnx::kNewestOpset}},
             {"becomes", row.becomes.empty() ? json() : json(row.becomes)},
             {"limits", limits(name)}};
  const bool own = row.op && row.becomes.empty();
  entry["inputs"] = own ? ports(row.op->inputs) : json::array();
  entry["outputs"] = own ? ports(row.op->outputs) : json::array();
  entry["attributes"] = own ? attributes(row.op->attributes) : json::array();
  return entry;
}

// "float32, float64, integers": the types of the first input, which is the one that holds the data.
std::string main_types(const OperatorRow& row) {
  if (!row.op) return "";
  const auto& ports = row.op->inputs.empty() ? row.op->outputs : row.op->inputs;
  if (ports.empty()) return "";
  const ir::TypeSet types = ports[0].types & ir::kAllTypes;
  if (types == ir::kAllTypes) return "all";
  constexpr std::pair<ir::TypeSet, const char*> kSets[] = {
      {ir::kFloatTypes, "floats"}, {ir::kIntegerTypes, "integers"}, {ir::kBoolType, "bool"}};
  std::vector<std::string> words;
  for (const auto& [set, name] : kSets) {
    if ((types & set) == set) {
      words.emplace_back(name);
    } else {
      const std::vector<std::string> some = type_names(types & set);
      words.insert(words.end(), some.begin(), some.end());
    }
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

int run_operators(const Talk& talk) {
  const auto rows = onnx_operators();
  if (talk.json) {
    json list = json::array();
    for (const auto& [name, row] : rows) list.push_back(to_json(name, row));
    print_json({{"opsets", {onnx::kOldestOpset, onnx::kNewestOpset}}, {"operators", list}});
    return kOk;
  }
  fmt::print("ONNX operators of opsets {} to {}\n\n", onnx::kOldestOpset, onnx::kNewestOpset);
  Table table({"operator", "element types", "limits"});
  for (const auto& [name, row] : rows) {
    std::vector<std::string> notes = limits(name);
    if (!row.becomes.empty()) notes.insert(notes.begin(), "read as " + row.becomes);
    table.row({name, main_types(row), fmt::format("{}", fmt::join(notes, "; "))});
  }
  fmt::print("{}", table.text());
  return kOk;
}

}  // namespace

std::function<int()> set_up_operators(Command&, const Context& context) {
  return [talk = context.talk] { return run_operators(*talk); };
}

}  // namespace stretto::cli
