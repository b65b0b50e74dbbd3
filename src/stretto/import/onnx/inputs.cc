#include "stretto/import/onnx/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "stretto/import/onnx/tensor.h"
#include "stretto/ir/limits.h"
#include "stretto/ir/not_straight.h"

namespace stretto::onnx {

bool is_open(const WireDimension& dimension) {
  // Some writers mark an open dimension with -1 instead of leaving it out.
  return !dimension.value || *dimension.value == -1;
}

std::string_view symbol_of(const WireDimension& dimension) {
  constexpr std::string_view kUnknown = "unk__";  // and a number
  const std::string_view name = dimension.symbol;
  const bool is_unknown =
      name.starts_with(kUnknown) &&
      name.find_first_not_of("0123456789", kUnknown.size()) == std::string_view::npos;
  const bool is_mark = name.find_first_not_of("? ") == std::string_view::npos;
  return is_mark || is_unknown || name == "None" || name == "-1" ? std::string_view() : name;
}

namespace {

using Symbols = std::map<std::string_view, int64_t>;

std::string text(const std::vector<WireDimension>& shape) {
  std::string out;
  for (const WireDimension& dimension : shape) {
    if (!out.empty()) out += 'x';
    if (!is_open(dimension)) {
      out += fmt::format("{}", *dimension.value);
    } else {
      out += dimension.symbol.empty() ? "?" : std::string(dimension.symbol);
    }
  }
  return out.empty() ? "scalar" : out;
}

// The shape to suggest: what is known, and a likely number for the rest.
std::string example(const std::vector<WireDimension>& shape) {
  Shape out;
  for (size_t i = 0; i < shape.size(); ++i) {
    out.push_back(!is_open(shape[i])  ? *shape[i].value
                  : i == 0            ? 1
                  : shape.size() == 4 ? 224
                                      : 128);
  }
  return shape_text(out);
}

void bind(const Source& source, std::string_view input, std::string_view symbol, int64_t value,
          Symbols& symbols) {
  if (symbol.empty()) return;
  const auto [at, fresh] = symbols.try_emplace(symbol, value);
  if (!fresh && at->second != value) {
    throw_invalid("{}: input {}: dimension {} is {} here and {} in another input", source.name,
                  input, symbol, value, at->second);
  }
}

void check_given(const Source& source, const WireInput& input, const Shape& given,
                 Symbols& symbols) {
  if (!input.shape) return;
  const auto& shape = *input.shape;
  bool fits = given.size() == shape.size();
  for (size_t i = 0; fits && i < given.size(); ++i) {
    fits = is_open(shape[i]) || *shape[i].value == given[i];
  }
  if (!fits) {
    throw_invalid("{}: input {} is {}, the shape given for it is {}", source.name, input.name,
                  text(shape), shape_text(given));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (is_open(shape[i])) bind(source, input.name, symbol_of(shape[i]), given[i], symbols);
  }
}

Shape close(const Source& source, const WireInput& input, Symbols& symbols,
            std::vector<std::string>& notes) {
  if (!input.shape) {
    throw_invalid(
        "{}: input {} has no shape in the file; give it one, as in --shape {}=1x3x224x224",
        source.name, input.name, input.name);
  }
  Shape shape;
  for (size_t i = 0; i < input.shape->size(); ++i) {
    const WireDimension& dimension = (*input.shape)[i];
    const std::string_view name = symbol_of(dimension);
    const auto symbol = symbols.find(name);
    if (!is_open(dimension)) {
      shape.push_back(*dimension.value);
    } else if (symbol != symbols.end()) {
      shape.push_back(symbol->second);
    } else if (i == 0) {
      shape.push_back(1);
      if (!name.empty()) symbols.emplace(name, 1);
      notes.push_back(
          fmt::format("input {} is {}: a batch of 1 was assumed", input.name, text(*input.shape)));
    } else {
      throw_invalid(
          "{}: input {} is {}, which leaves dimension {} open; give it a shape, as in "
          "--shape {}={}",
          source.name, input.name, text(*input.shape), i, input.name, example(*input.shape));
    }
  }
  return shape;
}

void check_declared(const Source& source, const WireInput& input) {
  if (input.name.empty()) source.fail(input.position, "an input has no name");
  if (!input.is_tensor) {
    ir::throw_not_straight(
        "{}: input {} is no tensor; sequences, maps and optional values are not "
        "supported",
        source.name, input.name);
  }
  if (!input.shape) return;
  if (input.shape->size() > ir::kMaxRank) {
    source.fail(input.position, "input {} has {} dimensions", input.name, input.shape->size());
  }
  for (const WireDimension& dimension : *input.shape) {
    if (!is_open(dimension) && *dimension.value < 0) {
      source.fail(input.position, "input {} has the negative dimension {}", input.name,
                  *dimension.value);
    }
  }
}

}  // namespace

std::vector<WireInput> fed_inputs(const WireGraph& graph) {
  std::unordered_set<std::string_view> constants;
  for (const WireTensor& tensor : graph.initializers) constants.insert(tensor.name);
  std::vector<WireInput> inputs;
  std::copy_if(graph.inputs.begin(), graph.inputs.end(), std::back_inserter(inputs),
               [&](const WireInput& input) { return constants.count(input.name) == 0; });
  return inputs;
}

std::vector<BoundInput> bind_inputs(const Source& source, const std::vector<WireInput>& inputs,
                                    const ImportOptions& options, std::vector<std::string>& notes) {
  Symbols symbols;
  for (const WireInput& input : inputs) check_declared(source, input);
  for (const auto& [name, given] : options.shapes) {
    const auto at = std::find_if(inputs.begin(), inputs.end(),
                                 [&key = name](const WireInput& i) { return i.name == key; });
    if (at == inputs.end()) {
      std::vector<std::string_view> names;
      for (const WireInput& input : inputs) names.push_back(input.name);
      throw_invalid("{}: a shape is given for {}, but the inputs are {}", source.name, name,
                    fmt::join(names, ", "));
    }
    check_given(source, *at, given, symbols);
  }
  std::vector<BoundInput> bound;
  for (const WireInput& input : inputs) {
    const std::string what = fmt::format("input {}", input.name);
    const DType dtype = element_type(source, input.type, what, input.position);
    const auto given = options.shapes.find(std::string(input.name));
    Shape shape =
        given != options.shapes.end() ? given->second : close(source, input, symbols, notes);
    try {
      element_count(shape);
    } catch (const InvalidArgument& error) {
      throw_invalid("{}: input {}: {}", source.name, input.name, error.what());
    }
    bound.push_back({.name = input.name, .dtype = dtype, .shape = std::move(shape)});
  }
  return bound;
}

}  // namespace stretto::onnx
