#include "stretto/import/onnx/consumer_sizes.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "stretto/import/onnx/attributes.h"

namespace stretto::onnx {
namespace {

using Sizes = std::vector<int64_t>;

class Consumers {
 public:
  Consumers(const Source& source, const WireGraph& graph, TensorReader& tensors)
      : source_(source), graph_(graph), tensors_(tensors) {}

  // What becomes of a value whose dimension i is dimension axes[i] of the input.
  void follow(std::string_view name, const std::vector<size_t>& axes, DeclaredInput& input,
              int depth = 0) {
    constexpr int kMostSteps = 8;
    for (const WireNode& node : graph_.nodes) {
      if (node.inputs.empty() || node.inputs[0] != name || !node.domain.empty()) continue;
      if (const auto known = fixed_by(node, axes.size())) {
        DeclaredDimension& d = (*input.shape)[axes[known->first]];
        if (d.size < 0) d.size = known->second;
      }
      if (depth == kMostSteps || node.outputs.empty()) continue;
      if (const auto passed = passed_by(node, axes)) {
        follow(node.outputs[0], *passed, input, depth + 1);
      }
    }
  }

 private:
  // Of an initialiser, also behind its DequantizeLinear.
  std::optional<Sizes> weights(const WireNode& node, size_t i) const {
    if (i >= node.inputs.size()) return std::nullopt;
    std::string_view name = node.inputs[i];
    for (const WireNode& maker : graph_.nodes) {
      if (maker.op != "DequantizeLinear" || maker.inputs.empty() || maker.outputs.empty()) continue;
      if (maker.outputs[0] == name) {
        name = maker.inputs[0];
        break;
      }
    }
    const auto at = std::find_if(graph_.initializers.begin(), graph_.initializers.end(),
                                 [&](const WireTensor& tensor) { return tensor.name == name; });
    if (at == graph_.initializers.end()) return std::nullopt;
    Sizes sizes;
    const uint32_t dims = at->is_sparse ? +sparse_tensor_field::kDims : +tensor_field::kDims;
    Fields fields(source_, at->body, "tensor");
    while (fields.next()) {
      if (fields.tag() == dims) {
        fields.integers(sizes);
      } else {
        fields.skip();
      }
    }
    return sizes;
  }

  ir::Attributes attributes(const WireNode& node) const {
    return read_attributes(source_, node, nullptr, tensors_).plain;
  }

  // A dimension of the node's first input, and the only size that it may have.
  std::optional<std::pair<size_t, int64_t>> fixed_by(const WireNode& node, size_t rank) const {
    const auto one = [&](size_t axis, int64_t size) -> std::optional<std::pair<size_t, int64_t>> {
      if (axis >= rank || size < 1) return std::nullopt;
      return std::pair(axis, size);
    };
    const std::string_view op = node.op;
    if (op == "Conv" || op == "ConvInteger" || op == "QLinearConv") {
      const auto w = weights(node, op == "QLinearConv" ? 3 : 1);
      if (!w || w->size() != rank) return std::nullopt;
      return one(1, (*w)[1] * attributes(node).integer("group", 1));
    }
    const auto w = weights(node, 1);
    if (!w) return std::nullopt;
    if (op == "ConvTranspose" && w->size() == rank) return one(1, (*w)[0]);
    if (op == "BatchNormalization" && w->size() == 1) return one(1, (*w)[0]);
    if ((op == "MatMul" || op == "MatMulInteger") && !w->empty()) {
      return one(rank - 1, (*w)[w->size() < 2 ? 0 : w->size() - 2]);
    }
    if (op == "Gemm" && w->size() == 2 && rank == 2) {
      const ir::Attributes all = attributes(node);
      return one(all.integer("transA", 0) == 0 ? 1 : 0,
                 (*w)[all.integer("transB", 0) == 0 ? 0 : 1]);
    }
    if ((op == "LSTM" || op == "GRU" || op == "RNN") && w->size() == 3) return one(2, (*w)[2]);
    return std::nullopt;
  }

  // The axes of the node's output, if it has the same dimensions.
  std::optional<std::vector<size_t>> passed_by(const WireNode& node,
                                               const std::vector<size_t>& axes) const {
    const std::string_view op = node.op;
    constexpr std::string_view kSame[] = {"Cast", "DequantizeLinear", "Identity", "QuantizeLinear"};
    if (std::find(std::begin(kSame), std::end(kSame), op) != std::end(kSame)) return axes;
    if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div") {
      const auto other = weights(node, 1);
      const bool single = other && other->size() <= axes.size() &&
                          std::all_of(other->begin(), other->end(), [](auto d) { return d == 1; });
      return single ? std::optional(axes) : std::nullopt;
    }
    if (op != "Transpose") return std::nullopt;
    std::vector<int64_t> order(axes.size());
    std::iota(order.rbegin(), order.rend(), int64_t{0});
    order = attributes(node).integers("perm", order);
    if (order.size() != axes.size()) return std::nullopt;
    std::vector<size_t> passed;
    for (int64_t i : order) {
      if (i < 0 || static_cast<size_t>(i) >= axes.size()) return std::nullopt;
      passed.push_back(axes[static_cast<size_t>(i)]);
    }
    return passed;
  }

  const Source& source_;
  const WireGraph& graph_;
  TensorReader& tensors_;
};

}  // namespace

void fix_by_consumers(const Source& source, const WireGraph& graph, TensorReader& tensors,
                      DeclaredInput& input) {
  if (std::all_of(input.shape->begin(), input.shape->end(),
                  [](const DeclaredDimension& d) { return d.size >= 0; })) {
    return;
  }
  std::vector<size_t> axes(input.shape->size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  Consumers(source, graph, tensors).follow(input.name, axes, input);
}

}  // namespace stretto::onnx
