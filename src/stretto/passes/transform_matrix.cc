// Fourier transforms of a fixed length are linear, so they are products with the matrix that they
// make of the identity. For the lengths of audio models (hundreds of elements) such a product is
// faster than a transform of frame after frame, and it fuses with what follows.
//
//   DFT(x [..., n, p])  = x [..., n p] times a matrix [n p, kept q]
//   STFT(x [b, length]) = a convolution of one channel with a filter for every element of a
//   spectrum
//
// where p and q are 1 for real and 2 for complex numbers.
#include "stretto/ir/interpreter.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"dft-matrix", "stft-filters"};
constexpr int64_t kMostElements = 2 << 20;  // of the matrix

Tensor identity(int64_t size, const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  for (int64_t i = 0; i < size; ++i) tensor.mutable_values<float>()[i * size + i] = 1;
  return tensor;
}

// Every input but the first is constant, or absent.
bool takes_one_input(const Rewriter& graph, const Node& node) {
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != kNone && graph.constant(node.inputs[i]) == nullptr) return false;
  }
  return graph.constant(node.inputs[0]) == nullptr;
}

// What the node makes of another `x` than in the graph.
Tensor apply(const Rewriter& graph, const Node& node, const Tensor& x) {
  ir::Graph alone;
  Node copy = node;
  copy.inputs[0] = alone.add_value("x", x.dtype(), x.shape());
  alone.inputs = {copy.inputs[0]};
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNone) continue;
    copy.inputs[i] =
        alone.add_constant(graph.name(node.inputs[i]), *graph.constant(node.inputs[i]));
  }
  copy.outputs = {alone.add_value("y")};
  alone.outputs = copy.outputs;
  alone.nodes.push_back(std::move(copy));
  ir::infer(alone);
  return ir::interpret(alone, {&x, 1})[0];
}

ValueId reshaped(Rewriter& graph, int n, ValueId x, const Shape& shape) {
  return graph.insert(n, "Reshape", {x, graph.add_constant("shape", Tensor::int64s(shape))}, {},
                      DType::kFloat32, shape, graph.node(n).name + ".rows");
}

void become_reshape(Rewriter& graph, int n, ValueId x) {
  const Shape shape = graph.shape(graph.node(n).outputs[0]);
  graph.become(n, "Reshape", {x, graph.add_constant("shape", Tensor::int64s(shape))}, {});
}

void rewrite_dft(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Shape x = graph.shape(node.inputs[0]), y = graph.shape(node.outputs[0]);
  if (graph.dtype(node.inputs[0]) != DType::kFloat32 || !takes_one_input(graph, node)) return;
  const size_t rank = x.size();
  const bool given = node.inputs.size() > 2 && node.inputs[2] != kNone;
  const int64_t axis = given ? graph.constant(node.inputs[2])->as_int64s()[0] : -2;
  if (axis != -2 && axis != static_cast<int64_t>(rank) - 2) return;
  const int64_t from = x[rank - 2] * x[rank - 1], to = y[rank - 2] * y[rank - 1];
  if (from * to == 0 || from > kMostElements / to) return;
  const Shape basis = [&] {
    Shape shape(rank, 1);
    shape[0] = from;
    shape[rank - 2] = x[rank - 2];
    shape[rank - 1] = x[rank - 1];
    return shape;
  }();
  if (rank < 3 || !context.allow("dft-matrix", node.name)) return;
  const Tensor matrix = apply(graph, node, identity(from, basis)).reshaped({from, to});
  const int64_t rows = element_count(x) / from;
  const ValueId spectra = graph.insert(
      n, "MatMul",
      {reshaped(graph, n, node.inputs[0], {rows, from}), graph.add_constant("dft", matrix)}, {},
      DType::kFloat32, {rows, to}, node.name + ".product");
  become_reshape(graph, n, spectra);
}

void rewrite_stft(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Shape x = graph.shape(node.inputs[0]), y = graph.shape(node.outputs[0]);
  const bool real = x.size() == 2 || x[2] == 1;
  if (graph.dtype(node.inputs[0]) != DType::kFloat32 || !takes_one_input(graph, node) || !real)
    return;
  const bool windowed = node.inputs.size() > 2 && node.inputs[2] != kNone;
  const int64_t length =
      windowed ? graph.shape(node.inputs[2])[0] : graph.constant(node.inputs[3])->as_int64s()[0];
  const int64_t step = graph.constant(node.inputs[1])->as_int64s()[0];
  const int64_t frames = y[1], filters = y[2] * 2;
  if (element_count(y) == 0 || length > kMostElements / filters) return;
  if (!context.allow("stft-filters", node.name)) return;
  // [element, filter] to [filter, 1, element].
  const Tensor matrix = apply(graph, node, identity(length, {length, length, 1}));
  Tensor weight(DType::kFloat32, {filters, 1, length});
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t f = 0; f < filters; ++f) {
      weight.mutable_values<float>()[f * length + i] = matrix.values<float>()[i * filters + f];
    }
  }
  Attributes window;
  window.set("strides", std::vector<int64_t>{step});
  window.set("kernel_shape", std::vector<int64_t>{length});
  const ValueId signal = reshaped(graph, n, node.inputs[0], {x[0], 1, x[1]});
  const ValueId filtered =
      graph.insert(n, "Conv", {signal, graph.add_constant("stft", std::move(weight))}, window,
                   DType::kFloat32, {x[0], filters, frames}, node.name + ".filters");
  Attributes order;
  order.set("perm", std::vector<int64_t>{0, 2, 1});
  const ValueId spectra = graph.insert(n, "Transpose", {filtered}, order, DType::kFloat32,
                                       {x[0], frames, filters}, node.name + ".frames");
  become_reshape(graph, n, spectra);
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "DFT")) rewrite_dft(rewriter, n, context);
    if (rewriter.is(n, "STFT")) rewrite_stft(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kTransformMatrix{.name = "transform-matrix",
                            .summary = "Fourier transforms as products with a constant matrix",
                            .rules = kRules,
                            .run = run};

}  // namespace stretto::passes
