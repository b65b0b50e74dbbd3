// Linear models and support vector machines of domain ai.onnx.ml: matrix products and what follows
// them.
#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose_scores.h"

namespace stretto::onnx {
namespace {

using Id = Parts::Id;

int64_t columns_of(Parts& parts, Id x) { return parts.shape(x)[1]; }

// x times the transposed [rows, columns] of an attribute, plus a bias per row if there is one.
Id product(PendingNode& node, Id x, std::string_view name, int64_t rows, Id bias = ir::kNone) {
  Parts parts(node);
  const Id weights = floats_attribute(node, name, {rows, columns_of(parts, x)});
  std::vector<Id> inputs{x, weights};
  if (bias != ir::kNone) inputs.push_back(bias);
  return parts.op("Gemm", inputs, attribute("transB", int64_t{1}));
}

Id intercepts(PendingNode& node, int64_t count) {
  if (node.attributes.numbers("intercepts", {}).empty()) return ir::kNone;
  return floats_attribute(node, "intercepts", {count});
}

int64_t numbers_in(const PendingNode& node, std::string_view name) {
  return static_cast<int64_t>(node.attributes.numbers(name, {}).size());
}

// gamma, coef0, degree.
struct Kernel {
  std::string type;
  double gamma = 0, offset = 0, degree = 0;
};

Kernel kernel_of(const PendingNode& node) {
  Kernel kernel{.type = node.attributes.text("kernel_type", "LINEAR")};
  const std::vector<double> numbers = node.attributes.numbers("kernel_params", {});
  check(node, numbers.empty() || numbers.size() == 3,
        fmt::format("kernel_params: expected gamma, coef0 and degree, got {} values",
                    numbers.size()));
  if (!numbers.empty()) {
    kernel.gamma = numbers[0];
    kernel.offset = numbers[1];
    kernel.degree = numbers[2];
  }
  return kernel;
}

// |x|^2 - 2 x.s + |s|^2: a matrix product for most of the work. Both are taken from the centre of
// the support vectors first, because little is left of such a sum where x and s are long and near.
Id squared_distances(PendingNode& node, Id x, int64_t vectors) {
  Parts parts(node);
  const int64_t features = columns_of(parts, x);
  floats_attribute(node, "support_vectors", {vectors, features});  // which are as many
  const std::vector<double> all = node.attributes.numbers("support_vectors", {});
  std::vector<float> centre(static_cast<size_t>(features));
  for (size_t f = 0; f < centre.size(); ++f) {
    double sum = 0;
    for (size_t at = f; at < all.size(); at += centre.size()) sum += all[at];
    centre[f] = static_cast<float>(sum / static_cast<double>(vectors));
  }
  Tensor weights(DType::kFloat32, {vectors, features}), squares(DType::kFloat32, {vectors});
  for (size_t v = 0; v < static_cast<size_t>(vectors); ++v) {
    double square = 0;
    for (size_t f = 0; f < centre.size(); ++f) {
      const double difference = all[v * centre.size() + f] - static_cast<double>(centre[f]);
      weights.mutable_values<float>()[v * centre.size() + f] = static_cast<float>(-2 * difference);
      square += difference * difference;
    }
    squares.mutable_values<float>()[v] = static_cast<float>(square);
  }
  const Id from_centre = parts.subtract(x, parts.constant(Tensor::of<float>({features}, centre)));
  const Id products =
      parts.op("Gemm", {from_centre, parts.constant(weights), parts.constant(squares)},
               attribute("transB", int64_t{1}));
  return parts.op("Relu", {parts.add(products, parts.reduce("ReduceSumSquare", from_centre, {1}))});
}

// [rows, vectors]: the kernel of every row and every support vector.
Id kernels(PendingNode& node, Id x, int64_t vectors) {
  Parts parts(node);
  const Kernel kernel = kernel_of(node);
  const auto number = [&](double value) { return parts.number(value, x); };
  if (kernel.type == "RBF") {
    const Id distances = squared_distances(node, x, vectors);
    return parts.op("Exp", {parts.multiply(distances, number(-kernel.gamma))});
  }
  const Id dots = product(node, x, "support_vectors", vectors);
  if (kernel.type == "LINEAR") return dots;
  const Id inner = parts.add(parts.multiply(dots, number(kernel.gamma)), number(kernel.offset));
  if (kernel.type == "SIGMOID") return parts.op("Tanh", {inner});
  check(node, kernel.type == "POLY",
        fmt::format("kernel_type: expected LINEAR, POLY, RBF or SIGMOID, got {}", kernel.type));
  return parts.op("Pow", {inner, number(kernel.degree)});
}

// The pairs of classes whose scores a support vector machine makes.
struct Pairs {
  std::vector<int64_t> sizes, starts;  // support vectors of each class
  int64_t classes = 0, vectors = 0, count = 0;
};

Pairs pairs_of(const PendingNode& node, int64_t classes) {
  Pairs pairs{.sizes = node.attributes.integers("vectors_per_class", {}), .classes = classes};
  check(node, static_cast<int64_t>(pairs.sizes.size()) == classes,
        fmt::format("vectors_per_class: expected {} values, got {}", classes, pairs.sizes.size()));
  const int64_t numbers = numbers_in(node, "support_vectors");
  for (int64_t size : pairs.sizes) {
    check(node, size >= 0 && size <= numbers - pairs.vectors,
          "vectors_per_class: there are fewer support_vectors");
    pairs.starts.push_back(pairs.vectors);
    pairs.vectors += size;
  }
  pairs.count = classes * (classes - 1) / 2;
  return pairs;
}

// [vectors, pairs] from coefficients [classes - 1, vectors]: a pair (i, j) takes row j - 1 of what
// belongs to class i, and row i of what belongs to j.
Tensor pair_weights(const PendingNode& node, const Pairs& pairs) {
  const std::vector<double> all = node.attributes.numbers("coefficients", {});
  const int64_t wanted = (pairs.classes - 1) * pairs.vectors;
  check(node, static_cast<int64_t>(all.size()) == wanted,
        fmt::format("coefficients: expected {} values, got {}", wanted, all.size()));
  Tensor weights(DType::kFloat32, {pairs.vectors, pairs.count});
  std::span<float> to = weights.mutable_values<float>();
  std::fill(to.begin(), to.end(), 0.0f);
  int64_t pair = 0;
  for (int64_t i = 0; i < pairs.classes; ++i) {
    for (int64_t j = i + 1; j < pairs.classes; ++j, ++pair) {
      const auto take = [&](int64_t owner, int64_t row) {
        const int64_t begin = pairs.starts[static_cast<size_t>(owner)];
        for (int64_t v = begin; v < begin + pairs.sizes[static_cast<size_t>(owner)]; ++v) {
          to[static_cast<size_t>(v * pairs.count + pair)] =
              static_cast<float>(all[static_cast<size_t>(row * pairs.vectors + v)]);
        }
      };
      take(i, j - 1);
      take(j, i);
    }
  }
  return weights;
}

// [pairs, classes]: +1 where a pair's score votes for a class, by its sign.
Tensor vote_weights(const Pairs& pairs) {
  Tensor weights(DType::kFloat32, {pairs.count, pairs.classes});
  std::span<float> to = weights.mutable_values<float>();
  std::fill(to.begin(), to.end(), 0.0f);
  int64_t pair = 0;
  for (int64_t i = 0; i < pairs.classes; ++i) {
    for (int64_t j = i + 1; j < pairs.classes; ++j, ++pair) {
      to[static_cast<size_t>(pair * pairs.classes + i)] = 1;
      to[static_cast<size_t>(pair * pairs.classes + j)] = -1;
    }
  }
  return weights;
}

}  // namespace

void compose_linear_regressor(PendingNode& node) {
  const Id x = feature_rows(node);
  const int64_t targets = node.attributes.integer("targets", 1);
  check(node, targets > 0, fmt::format("targets: expected 1 or more, got {}", targets));
  check(node, targets <= numbers_in(node, "coefficients"),
        fmt::format("coefficients: expected some for each of {} targets", targets));
  const Id y = product(node, x, "coefficients", targets, intercepts(node, targets));
  const Transform transform = transform_of(node);
  const bool applies = targets > 1 || transform == Transform::kProbit;
  node.results = {applies ? transformed(node, y, transform) : y};
}

void compose_linear_classifier(PendingNode& node) {
  const Id x = feature_rows(node);
  Parts parts(node);
  std::vector<int64_t> labels = class_labels(node, "classlabels_ints");
  const int64_t features = columns_of(parts, x), coefficients = numbers_in(node, "coefficients");
  const auto classes = static_cast<int64_t>(labels.size());
  check(node, classes > 1, "classlabels_ints: expected two labels or more");
  const int64_t scores = classes == 2 && coefficients == features ? 1 : classes;
  const Id y = product(node, x, "coefficients", scores, intercepts(node, scores));
  const Transform transform = transform_of(node);
  if (scores == 1) {
    node.results = {label_above(node, y, 0, labels), two_columns(node, y, true, transform)};
  } else {
    node.results = {label_of_largest(node, y, labels), transformed(node, y, transform)};
  }
}

void compose_svm_regressor(PendingNode& node) {
  const Id x = feature_rows(node);
  Parts parts(node);
  const int64_t vectors = node.attributes.integer("n_supports", 0);
  check(node, vectors >= 0 && vectors <= numbers_in(node, "coefficients"),
        fmt::format("n_supports: {} is outside of the coefficients", vectors));
  const Id rho = floats_attribute(node, "rho", {1});
  const Id y = product(node, vectors > 0 ? kernels(node, x, vectors) : x, "coefficients", 1, rho);
  if (node.attributes.integer("one_class", 0) == 0) {
    node.results = {y};
    return;
  }
  const Id inside = parts.op("Greater", {y, parts.number(0, y)});
  node.results = {parts.op("Where", {inside, parts.number(1, y), parts.number(-1, y)})};
}

void compose_svm_classifier(PendingNode& node) {
  const Id x = feature_rows(node);
  Parts parts(node);
  const std::vector<int64_t> labels = class_labels(node, "classlabels_ints");
  const auto classes = static_cast<int64_t>(labels.size());
  check(node, classes > 1, "classlabels_ints: expected two labels or more");
  const Transform transform = transform_of(node);
  if (node.attributes.integers("vectors_per_class", {}).empty()) {
    const std::vector<double> given = node.attributes.numbers("rho", {});
    const double rho = given.empty() ? 0 : given.front();
    const Id y = parts.add(product(node, x, "coefficients", classes), parts.number(rho, x));
    node.results = {label_of_largest(node, y, labels), transformed(node, y, transform)};
    return;
  }
  const Pairs pairs = pairs_of(node, classes);
  const Id rho = floats_attribute(node, "rho", {pairs.count});
  // Matrices of pairs by classes and by vectors are made of lists that are far shorter.
  constexpr int64_t kMost = int64_t{1} << 26;
  if (std::max(classes, pairs.vectors) > kMost / std::max<int64_t>(pairs.count, 1)) {
    node.unsupported(
        fmt::format("{} classes with {} support vectors are too many", classes, pairs.vectors));
  }
  const Id weights = parts.constant(pair_weights(node, pairs));
  const Id scores = parts.op("Gemm", {kernels(node, x, pairs.vectors), weights, rho});
  if (numbers_in(node, "prob_a") > 0) {
    node.unsupported("probabilities (prob_a) are not supported: export the model without them");
  }
  // Scores above 0 vote for the first of their pair.
  const Id above =
      parts.cast(parts.op("Greater", {scores, parts.number(0, scores)}), DType::kFloat32);
  const Id second = parts.constant([&] {
    Tensor row(DType::kFloat32, {classes});
    for (int64_t j = 0; j < classes; ++j) {
      row.mutable_values<float>()[static_cast<size_t>(j)] = static_cast<float>(j);
    }
    return row;
  }());
  const Id votes = parts.op("Gemm", {above, parts.constant(vote_weights(pairs)), second});
  // The one score of two classes is that of the first, and the second column takes it as it is.
  node.results = {label_of_largest(node, votes, labels),
                  classes == 2 ? two_columns(node, scores, transform != Transform::kNone, transform)
                               : transformed(node, scores, transform)};
}

}  // namespace stretto::onnx
