// Short Fourier transforms as products with a matrix of sines and cosines: a product at the peak
// takes less time than a fast transform that is not. Longer ones stay, for the fourier kernels.
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"
#include "stretto/tensor/fourier.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"dft", "stft"};
// Numbers in the matrix where both take about the same time for 64 rows (docs/design/fourier.md).
// Kernels need several transforms for a length with a large prime factor.
constexpr int64_t kMostWeights = 1 << 13, kMostWeightsOfPrimes = 1 << 17;
constexpr int64_t kLargePrime = 61;

// e^(sign 2 pi i n / length)
std::complex<double> wave(int64_t n, int64_t length, double sign) {
  return std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(n % length) /
                             static_cast<double>(length));
}

struct Transform {
  int64_t axis = 0, size = 0;        // elements that are given
  int64_t parts = 0;                 // of each: 1 real, 2 complex
  int64_t length = 0;                // elements that are transformed; zeros follow those given
  int64_t kept = 0, kept_parts = 0;  // of the result
  bool inverse = false;

  int64_t rows() const { return size * parts; }
  int64_t columns() const { return kept * kept_parts; }
  bool back_to_real() const { return kept_parts == 1; }
};

// [rows, columns]: what each number that is given adds to each of the result.
Tensor matrix(const Transform& t) {
  Tensor made(DType::kFloat32, {t.rows(), t.columns()});
  float* to = made.mutable_values<float>().data();
  const double scale = t.inverse ? 1 / static_cast<double>(t.length) : 1;
  for (int64_t i = 0; i < t.size; ++i) {
    for (int64_t part = 0; part < t.parts; ++part) {
      const std::complex<double> unit = part == 0 ? 1.0 : std::complex<double>(0, 1);
      for (int64_t k = 0; k < t.kept; ++k) {
        std::complex<double> factor = unit * wave(i * k, t.length, t.inverse ? 1 : -1);
        if (t.back_to_real()) {
          const int64_t mirror = t.length - i;  // in the half that is not given
          if (i > 0 && mirror > t.length / 2) {
            factor += std::conj(unit) * wave(mirror * k, t.length, 1);
          }
        }
        *to++ = static_cast<float>(factor.real() * scale);
        if (!t.back_to_real()) *to++ = static_cast<float>(factor.imag() * scale);
      }
    }
  }
  return made;
}

std::optional<int64_t> known(const Rewriter& graph, const Node& node, size_t i, int64_t otherwise) {
  if (i >= node.inputs.size() || node.inputs[i] == kNone) return otherwise;
  const Tensor* given = graph.constant(node.inputs[i]);
  if (given == nullptr || given->count() != 1) return std::nullopt;
  return given->as_int64s()[0];
}

bool worth_it(const Rewriter& graph, const Node& node, const Transform& t) {
  const int64_t weights = t.rows() * t.columns();
  if (graph.dtype(node.inputs[0]) != DType::kFloat32 || weights > kMostWeightsOfPrimes ||
      element_count(graph.shape(node.inputs[0])) == 0) {
    return false;
  }
  const std::vector<int64_t> factors = prime_factors(t.length);
  return weights <= kMostWeights || (!factors.empty() && factors.back() > kLargePrime);
}

ValueId reshape(Rewriter& graph, int n, ValueId x, const Shape& to) {
  return graph.insert(n, "Reshape", {x, graph.add_constant("shape", Tensor::int64s(to))}, {},
                      DType::kFloat32, to, graph.node(n).name + ".shape");
}

Attributes order(const std::vector<int64_t>& axes) {
  Attributes attributes;
  attributes.set("perm", axes);
  return attributes;
}

void rewrite_dft(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Shape x = graph.shape(node.inputs[0]), y = graph.shape(node.outputs[0]);
  const auto rank = static_cast<int64_t>(x.size());
  const auto axis = known(graph, node, 2, -2);
  if (!axis) return;
  const bool inverse = node.attributes.integer("inverse", 0) != 0;
  const bool onesided = node.attributes.integer("onesided", 0) != 0;
  Transform t{.axis = normalize_axis(*axis, rank, "axis"),
              .parts = x.back(),
              .kept_parts = y.back(),
              .inverse = inverse};
  t.size = x[t.axis];
  t.kept = y[t.axis];
  const auto length = known(graph, node, 1, inverse && onesided ? 2 * (t.size - 1) : t.size);
  // A product would multiply elements that do not count with zero, infinite ones too.
  const int64_t counted = length ? (inverse && onesided ? *length / 2 + 1 : *length) : 0;
  if (t.size > counted) return;
  t.length = *length;
  if (!worth_it(graph, node, t) || !context.allow("dft", node.name)) {
    return;
  }
  const ValueId weight =
      graph.add_constant(node.name + ".waves",
                         context.derive_one(fmt::format("waves {} {} {} {} {} {}", t.size, t.parts,
                                                        t.length, t.kept, t.kept_parts, t.inverse),
                                            {}, [&] { return matrix(t); }));
  // The axis goes to the end, beside the parts, and comes back.
  std::vector<int64_t> there;
  Shape rows, moved;
  for (int64_t a = 0; a < rank - 1; ++a) {
    if (a != t.axis) there.push_back(a);
  }
  for (const int64_t a : there) rows.push_back(x[a]);
  moved = rows;
  there.insert(there.end(), {t.axis, rank - 1});
  moved.insert(moved.end(), {t.size, t.parts});
  ValueId from = node.inputs[0];
  const bool last = t.axis == rank - 2;
  if (!last) {
    from = graph.insert(n, "Transpose", {from}, order(there), DType::kFloat32, moved,
                        node.name + ".rows");
  }
  Shape flat = rows, product = rows, split = rows;
  flat.push_back(t.rows());
  product.push_back(t.columns());
  split.insert(split.end(), {t.kept, t.kept_parts});
  from = reshape(graph, n, from, flat);
  from = graph.insert(n, "MatMul", {from, weight}, {}, DType::kFloat32, product, node.name);
  if (last) {
    graph.become(n, "Reshape", {from, graph.add_constant("shape", Tensor::int64s(split))}, {});
    return;
  }
  from = reshape(graph, n, from, split);
  std::vector<int64_t> back(there.size());
  for (size_t a = 0; a < there.size(); ++a) back[there[a]] = static_cast<int64_t>(a);
  graph.become(n, "Transpose", {from}, order(back));
}

// Frames of real numbers: a convolution whose filters are waves under the window.
void rewrite_stft(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Shape x = graph.shape(node.inputs[0]), y = graph.shape(node.outputs[0]);
  const auto step = known(graph, node, 1, 0);
  const bool windowed = node.inputs.size() > 2 && node.inputs[2] != kNone;
  const Tensor* window = windowed ? graph.constant(node.inputs[2]) : nullptr;
  const bool real = x.size() == 2 || x.back() == 1;
  if (!step || *step < 1 || !real || (windowed && window == nullptr)) return;
  const auto length = known(graph, node, 3, windowed ? window->count() : 0);
  if (!length || *length < 1) return;
  const Transform t{.size = *length, .parts = 1, .length = *length, .kept = y[2], .kept_parts = 2};
  if (!worth_it(graph, node, t) || !context.allow("stft", node.name)) {
    return;
  }
  std::vector<Tensor> of;
  if (windowed) of.push_back(*window);
  const ValueId weight = graph.add_constant(
      node.name + ".waves",
      context.derive_one(fmt::format("framed waves {} {}", t.size, t.kept), of, [&] {
        const Tensor waves = matrix(t);
        const auto from = waves.values<float>();
        const std::vector<double> under =
            of.empty() ? std::vector<double>(static_cast<size_t>(t.size), 1) : of[0].as_doubles();
        Tensor filters(DType::kFloat32, {t.columns(), 1, t.size});
        const auto to = filters.mutable_values<float>();
        for (int64_t i = 0; i < t.size; ++i) {
          for (int64_t k = 0; k < t.columns(); ++k) {
            to[k * t.size + i] = static_cast<float>(under[i] * from[i * t.columns() + k]);
          }
        }
        return filters;
      }));
  const ValueId signal = reshape(graph, n, node.inputs[0], {x[0], 1, x[1]});
  Attributes window_of;
  window_of.set("strides", std::vector<int64_t>{*step});
  window_of.set("kernel_shape", std::vector<int64_t>{t.size});
  const ValueId frames = graph.insert(n, "Conv", {signal, weight}, window_of, DType::kFloat32,
                                      {x[0], t.columns(), y[1]}, node.name);
  const ValueId rows = graph.insert(n, "Transpose", {frames}, order({0, 2, 1}), DType::kFloat32,
                                    {x[0], y[1], t.columns()}, node.name + ".rows");
  graph.become(n, "Reshape", {rows, graph.add_constant("shape", Tensor::int64s(y))}, {});
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  const int count = rewriter.count();
  for (int n = 0; n < count; ++n) {
    if (rewriter.is(n, "DFT")) rewrite_dft(rewriter, n, context);
    if (rewriter.is(n, "STFT")) rewrite_stft(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFourierProducts{.name = "fourier-products",
                            .summary = "short Fourier transforms as products with their waves",
                            .rules = kRules,
                            .run = run};

}  // namespace stretto::passes
