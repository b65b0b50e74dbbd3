// Operators whose result is known when the model is read: windows, EyeLike, MelWeightMatrix.
#include <cmath>
#include <numbers>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose.h"
#include "stretto/import/onnx/upgrade_functions.h"

namespace stretto::onnx {
namespace {

// A larger table is no window of a signal.
constexpr int64_t kMostElements = int64_t{1} << 24;

int64_t known_size(const PendingNode& node, size_t input, std::string_view what) {
  const std::vector<int64_t> values = known_integers(node, input, what);
  if (values.size() != 1 || values[0] < 0 || values[0] > kMostElements) {
    throw_invalid("{} \"{}\": {}: expected one value from 0 to {}", node.op, node.name, what,
                  kMostElements);
  }
  return values[0];
}

void give(PendingNode& node, const Shape& shape, const std::vector<double>& values, DType dtype) {
  node.results = {node.add_constant("table", Tensor::of<double>(shape, values).converted(dtype))};
}

// a - b cos(2 pi i / n) + c cos(4 pi i / n)
void cosine_window(PendingNode& node, double a, double b, double c) {
  type_names(node);
  const int64_t size = known_size(node, 0, "size");
  const bool periodic = node.attributes.integer("periodic", 1) != 0;
  const auto period = static_cast<double>(periodic ? size : size - 1);
  std::vector<double> values(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values[i] = period == 0 ? 1 : a - b * std::cos(turn) + c * std::cos(2 * turn);
  }
  give(node, {size}, values, result_type(node, "output_datatype", DType::kFloat32));
}

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }

}  // namespace

void compose_hann_window(PendingNode& node) { cosine_window(node, 0.5, 0.5, 0); }

void compose_hamming_window(PendingNode& node) { cosine_window(node, 25.0 / 46, 1 - 25.0 / 46, 0); }

void compose_blackman_window(PendingNode& node) { cosine_window(node, 0.42, 0.5, 0.08); }

void compose_eye(PendingNode& node) {
  type_names(node);
  const Shape* shape = node.shape(0);
  if (shape == nullptr || shape->size() != 2) {
    throw_invalid("EyeLike \"{}\": expected a matrix, got {}", node.name,
                  shape == nullptr ? "no input" : shape_text(*shape));
  }
  const Shape size = *shape;
  if (element_count(size) > kMostElements) {
    node.unsupported(fmt::format("a matrix of {}", shape_text(size)));
  }
  const int64_t k = node.attributes.integer("k", 0);
  std::vector<double> values(static_cast<size_t>(element_count(size)), 0);
  for (int64_t row = 0; row < size[0]; ++row) {
    if (k >= -row && k < size[1] - row) values[row * size[1] + row + k] = 1;
  }
  give(node, size, values, result_type(node, "dtype", node.dtype(0)));
}

// Triangles between neighbouring mel frequencies, over the bins of a Fourier transform.
void compose_mel_weights(PendingNode& node) {
  type_names(node);
  const int64_t bins = known_size(node, 0, "num_mel_bins");
  const int64_t length = known_size(node, 1, "dft_length");
  const int64_t rate = known_size(node, 2, "sample_rate");
  double edges[2];
  for (size_t i = 0; i < 2; ++i) {
    const Tensor* edge = node.constant(3 + i);
    if (edge == nullptr) {
      node.not_straight(
          "the edges must be known when the model is optimised, but they depend on "
          "the model's input values");
    }
    if (edge->count() != 1) {
      throw_invalid("{} \"{}\": an edge: expected one value", node.op, node.name);
    }
    edges[i] = mel_of(edge->as_doubles()[0]);
  }
  const int64_t rows = length / 2 + 1;
  if (rate == 0 || (bins + 1) > kMostElements / rows) {
    throw_invalid("{} \"{}\": {} bins of {} Hz", node.op, node.name, bins, rate);
  }
  std::vector<int64_t> places(static_cast<size_t>(bins + 2));
  const double step = (edges[1] - edges[0]) / static_cast<double>(bins + 2);
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double mel = static_cast<double>(i) * step + edges[0];
    const double hertz = 700 * (std::pow(10.0, mel / 2595) - 1);
    const double place =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(place >= 0 && place <= static_cast<double>(rows))) {
      throw_invalid("{} \"{}\": {} Hz lies outside the transform", node.op, node.name, hertz);
    }
    places[i] = static_cast<int64_t>(place);
  }
  std::vector<double> values(static_cast<size_t>(rows * bins), 0);
  for (int64_t bin = 0; bin < bins; ++bin) {
    const int64_t low = places[bin], centre = places[bin + 1], high = places[bin + 2];
    const auto put = [&](int64_t row, double value) {
      if (row < rows) values[row * bins + bin] = value;
    };
    if (centre == low) put(centre, 1);
    for (int64_t row = low; centre > low && row <= centre; ++row) {
      put(row, static_cast<double>(row - low) / static_cast<double>(centre - low));
    }
    for (int64_t row = centre; high > centre && row < high; ++row) {
      put(row, static_cast<double>(high - row) / static_cast<double>(high - centre));
    }
  }
  give(node, {rows, bins}, values, result_type(node, "output_datatype", DType::kFloat32));
}

}  // namespace stretto::onnx
