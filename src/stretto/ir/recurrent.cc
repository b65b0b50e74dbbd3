#include "stretto/ir/recurrent.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "stretto/base/error.h"
#include "stretto/tensor/formulas.h"

namespace stretto::ir {
namespace {

constexpr double kNoDefault = std::numeric_limits<double>::quiet_NaN();

// https://onnx.ai/onnx/operators/onnx__LSTM.html, "Activation functions".
constexpr RecurrentFunction kFunctions[] = {
    {"Affine", 2, 1, 0, [](double x, double alpha, double beta) { return alpha * x + beta; },
     Activation::kNone},
    {"Elu", 1, 1, 0, [](double x, double alpha, double) { return formulas::elu(x, alpha); },
     Activation::kElu},
    {"HardSigmoid", 2, 0.2f, 0.5, formulas::hard_sigmoid, Activation::kHardSigmoid},
    {"LeakyRelu", 1, 0.01f, 0,
     [](double x, double alpha, double) { return formulas::leaky_relu(x, alpha); },
     Activation::kLeakyRelu},
    {"Relu", 0, 0, 0, [](double x, double, double) { return formulas::relu(x); },
     Activation::kRelu},
    {"ScaledTanh", 2, kNoDefault, kNoDefault,
     [](double x, double alpha, double beta) { return alpha * std::tanh(beta * x); },
     Activation::kNone},
    {"Sigmoid", 0, 0, 0, [](double x, double, double) { return formulas::sigmoid(x); },
     Activation::kSigmoid},
    {"Softplus", 0, 0, 0, [](double x, double, double) { return formulas::softplus(x); },
     Activation::kNone},
    {"Softsign", 0, 0, 0, [](double x, double, double) { return x / (1 + std::fabs(x)); },
     Activation::kNone},
    {"Tanh", 0, 0, 0, [](double x, double, double) { return std::tanh(x); }, Activation::kTanh},
    {"ThresholdedRelu", 1, 1, 0, [](double x, double alpha, double) { return x <= alpha ? 0 : x; },
     Activation::kNone},
};

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

const RecurrentFunction& find_function(std::string_view name) {
  for (const RecurrentFunction& function : kFunctions) {
    if (same_word(function.name, name)) return function;
  }
  std::string known;
  for (const RecurrentFunction& function : kFunctions) {
    known += (known.empty() ? "" : ", ") + std::string(function.name);
  }
  throw_invalid("activations: \"{}\" is none of {}", name, known);
}

// The default functions of each direction.
std::vector<std::string> default_functions(Cell cell, int directions) {
  std::vector<std::string> names;
  for (int d = 0; d < directions; ++d) {
    if (cell != Cell::kRnn) names.emplace_back("Sigmoid");
    names.emplace_back("Tanh");
    if (cell == Cell::kLstm) names.emplace_back("Tanh");
  }
  return names;
}

// Functions take their numbers from the lists in turn; those beyond the end of a list have the
// default.
std::vector<RecurrentActivation> read_activations(const RecurrentForm& form,
                                                  const Attributes& attributes) {
  std::vector<std::string> names = default_functions(form.cell, form.directions);
  if (const Attribute* given = attributes.find("activations")) {
    const auto* list = std::get_if<std::vector<std::string>>(given);
    if (list == nullptr) throw_invalid("activations: expected a list of names");
    if (!list->empty() && list->size() != names.size()) {
      throw_invalid("activations: expected {} names, {} for each direction, got {}", names.size(),
                    form.functions, list->size());
    }
    if (!list->empty()) names = *list;
  }
  const std::vector<double> alphas = attributes.numbers("activation_alpha", {});
  const std::vector<double> betas = attributes.numbers("activation_beta", {});
  size_t next_alpha = 0, next_beta = 0;
  const auto take = [](const std::vector<double>& list, size_t& next, double fallback) {
    return next < list.size() ? list[next++] : fallback;
  };
  std::vector<RecurrentActivation> activations;
  for (const std::string& name : names) {
    const RecurrentFunction& function = find_function(name);
    RecurrentActivation a{.function = &function, .alpha = function.alpha, .beta = function.beta};
    if (function.numbers > 0) a.alpha = take(alphas, next_alpha, a.alpha);
    if (function.numbers > 1) a.beta = take(betas, next_beta, a.beta);
    if (std::isnan(a.alpha) || std::isnan(a.beta)) {
      throw_invalid("activations: {} needs a number in activation_alpha and in activation_beta",
                    function.name);
    }
    activations.push_back(a);
  }
  return activations;
}

}  // namespace

RecurrentForm recurrent_form(std::string_view op, const Attributes& attributes) {
  const Cell cell = op == "LSTM" ? Cell::kLstm : op == "GRU" ? Cell::kGru : Cell::kRnn;
  const std::string direction = attributes.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    throw_invalid("direction: expected forward, reverse or bidirectional, got \"{}\"", direction);
  }
  const int64_t layout = attributes.integer("layout", 0);
  if (layout != 0 && layout != 1) throw_invalid("layout: expected 0 or 1, got {}", layout);
  const double clip = attributes.number("clip", std::numeric_limits<double>::infinity());
  if (!(clip >= 0)) throw_invalid("clip: expected a threshold of 0 or above, got {}", clip);
  RecurrentForm form{.cell = cell,
                     .gates = cell == Cell::kLstm  ? 4
                              : cell == Cell::kGru ? 3
                                                   : 1,
                     .functions = cell == Cell::kLstm  ? 3
                                  : cell == Cell::kGru ? 2
                                                       : 1,
                     .directions = direction == "bidirectional" ? 2 : 1,
                     .reverse = {direction == "reverse", true},
                     .batch_first = layout == 1,
                     .input_forget = attributes.integer("input_forget", 0) != 0,
                     .linear_before_reset = attributes.integer("linear_before_reset", 0) != 0,
                     .clip = clip,
                     .activations = {}};
  form.activations = read_activations(form, attributes);
  return form;
}

RecurrentSizes recurrent_sizes(const RecurrentForm& form, const Shape& x, const Shape& r) {
  return {.steps = x[form.batch_first ? 1 : 0],
          .batch = x[form.batch_first ? 0 : 1],
          .inputs = x[2],
          .hidden = r[2]};
}

}  // namespace stretto::ir
