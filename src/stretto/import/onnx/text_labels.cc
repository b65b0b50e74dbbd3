#include "stretto/import/onnx/text_labels.h"

#include <protozero/pbf_writer.hpp>

namespace stretto::onnx {
namespace {

// By classifier, the attributes of both kinds of labels.
struct Labels {
  std::string_view op, integers;
};
constexpr Labels kLabels[] = {{"LinearClassifier", "classlabels_ints"},
                              {"SVMClassifier", "classlabels_ints"},
                              {"TreeEnsembleClassifier", "classlabels_int64s"}};
constexpr std::string_view kTexts = "classlabels_strings";

size_t texts_in(const Source& source, std::string_view attribute) {
  size_t count = 0;
  Fields fields(source, attribute, "attribute");
  while (fields.next()) {
    if (fields.tag() == attribute_field::kStrings) ++count;
    fields.skip();
  }
  return count;
}

// An attribute that lists 0, 1, 2, ...
std::string counted(std::string_view name, size_t count) {
  std::string message;
  protozero::pbf_writer writer(message);
  writer.add_string(attribute_field::kName, name.data(), name.size());
  writer.add_enum(attribute_field::kType, static_cast<int32_t>(AttributeType::kInts));
  for (size_t i = 0; i < count; ++i) {
    writer.add_int64(attribute_field::kInts, static_cast<int64_t>(i));
  }
  return message;
}

// The same attribute with another name: of fields that stand twice, the last counts.
std::string renamed(std::string_view attribute, std::string_view name) {
  std::string message(attribute);
  protozero::pbf_writer writer(message);
  writer.add_string(attribute_field::kName, name.data(), name.size());
  return message;
}

const Labels* labels_of(const WireNode& node) {
  if (node.domain != "ai.onnx.ml") return nullptr;
  for (const Labels& row : kLabels) {
    if (row.op == node.op) return &row;
  }
  return nullptr;
}

}  // namespace

void split_text_labels(const Source& source, std::vector<WireNode>& nodes, WireTexts& texts) {
  const auto keep = [&](std::string text) -> std::string_view {
    return *texts.emplace_back(std::make_shared<const std::string>(std::move(text)));
  };
  std::vector<WireNode> all;
  for (WireNode& node : nodes) {
    all.push_back(std::move(node));
    const size_t n = all.size() - 1;
    const Labels* labels = labels_of(all[n]);
    if (labels == nullptr) continue;
    std::vector<std::string_view> others;
    std::string_view given;
    for (std::string_view message : all[n].attributes) {
      const std::string_view name = read_attribute(source, message).name;
      if (name == kTexts && texts_in(source, message) > 0) {
        given = message;
      } else if (name != labels->integers) {
        others.push_back(message);
      }
    }
    if (given.empty()) continue;
    const size_t count = texts_in(source, given);
    others.push_back(keep(counted(labels->integers, count)));
    all[n].attributes = std::move(others);
    if (all[n].outputs.empty() || all[n].outputs[0].empty()) continue;
    const std::string_view label = all[n].outputs[0];
    const std::string_view place = keep(std::string(label) + "/place of the label");
    all[n].outputs[0] = place;
    WireNode encoder{
        .name = keep(std::string(all[n].name) + "/labels"),
        .op = "LabelEncoder",
        .domain = "ai.onnx.ml",
        .inputs = {place},
        .outputs = {label},
        .attributes = {keep(counted("keys_int64s", count)), keep(renamed(given, "values_strings"))},
        .position = all[n].position};
    all.push_back(std::move(encoder));
  }
  nodes = std::move(all);
}

}  // namespace stretto::onnx
