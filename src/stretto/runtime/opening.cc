#include "stretto/runtime/opening.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "stretto/base/error.h"
#include "stretto/ir/not_straight.h"
#include "stretto/runtime/sample_inputs.h"

namespace stretto::runtime {
namespace {

std::string declared_text(const std::vector<onnx::DeclaredDimension>& shape) {
  std::string text;
  for (const onnx::DeclaredDimension& d : shape) {
    if (!text.empty()) text += 'x';
    text += d.size >= 0 ? fmt::format("{}", d.size) : d.name.empty() ? "?" : d.name;
  }
  return text.empty() ? "scalar" : text;
}

ShapeRange declared_range(const std::vector<onnx::DeclaredDimension>& shape) {
  ShapeRange range;
  for (const onnx::DeclaredDimension& d : shape) {
    if (d.size >= 0) {
      range.push_back({d.size, d.size, d.name});
    } else {
      range.push_back({0, Dimension::kAny, d.name});
    }
  }
  return range;
}

// The caller's range, with the file's names where it gives none.
ShapeRange asked_range(const onnx::DeclaredInput& input, ShapeRange range,
                       const std::string& source) {
  if (!input.shape) return range;
  bool fits = range.size() == input.shape->size();
  for (size_t i = 0; fits && i < range.size(); ++i) {
    const onnx::DeclaredDimension& d = (*input.shape)[i];
    fits = d.size < 0 || (range[i].fixed() && range[i].least == d.size);
    if (range[i].name.empty()) range[i].name = d.name;
  }
  if (!fits) {
    throw_invalid("{}: input {} is {}, the shapes given for it are {}", source, input.name,
                  declared_text(*input.shape), shape_range_text(range));
  }
  return range;
}

// Dimensions of one name get what all of them allow. Fixed ones need no name any more.
void agree(std::vector<OpenInput>& inputs, const std::string& source) {
  std::map<std::string, Dimension> named;
  for (const OpenInput& input : inputs) {
    for (const Dimension& d : input.shape) {
      if (d.name.empty()) continue;
      Dimension& all = named.try_emplace(d.name, d).first->second;
      all.least = std::max(all.least, d.least);
      all.most = std::min(all.most, d.most);
      if (all.least <= all.most) continue;
      throw_invalid("{}: input {}: no size of dimension {} suits all inputs", source, input.name,
                    d.name);
    }
  }
  for (OpenInput& input : inputs) {
    for (Dimension& d : input.shape) {
      if (d.name.empty()) continue;
      d = named.at(d.name);
      if (d.fixed()) d.name.clear();
    }
  }
}

// Sizes by name, so that dimensions of one name get one size.
class Sizes {
 public:
  int64_t of(const Dimension& d, int64_t size) {
    return d.name.empty() ? size : named_.try_emplace(d.name, size).first->second;
  }

 private:
  std::map<std::string, int64_t> named_;
};

int64_t first_size(const ShapeRange& range, size_t axis, int64_t most_guessed) {
  const Dimension& d = range[axis];
  if (d.most != Dimension::kAny) return d.most;
  const int64_t likely = axis == 0 ? 1 : range.size() == 4 ? 224 : 128;
  return std::max(d.least, std::min(likely, most_guessed));
}

int64_t other_size(const Dimension& d, int64_t first) {
  if (d.fixed()) return first;
  return d.most == Dimension::kAny ? first + 1 : first == d.least ? d.most : d.least;
}

// The size that a given array has along an open dimension. Arrays of other shapes are refused
// later.
std::optional<int64_t> given_size(const OptimizeOptions& options, const OpenInput& input,
                                  size_t axis) {
  const auto at = options.inputs.find(input.name);
  if (at == options.inputs.end() || at->second.shape().size() != input.shape.size() ||
      input.shape[axis].fixed()) {
    return std::nullopt;
  }
  return at->second.shape()[axis];
}

// The inputs of a decoder that takes its past: the mask is as long as past and new places together.
enum class Length : uint8_t { kOther, kPast, kNew, kTotal };
Length length_of(const OpenInput& input, size_t axis) {
  if (axis == 0 || input.shape[axis].fixed()) return Length::kOther;
  const std::string& name = input.name;
  if (name.find("past") != std::string::npos) {
    // [batch, heads, places, size] as a rule; another open dimension is not the length then.
    const bool usual = input.shape.size() == 4 && !input.shape[2].fixed();
    return !usual || axis == 2 ? Length::kPast : Length::kOther;
  }
  if (axis != 1) return Length::kOther;
  if (name == "attention_mask" && input.shape.size() == 2) return Length::kTotal;
  const bool tokens = name == "input_ids" || name == "inputs_embeds" || name == "position_ids";
  return tokens ? Length::kNew : Length::kOther;
}

bool takes_past(const Opening& opening) {
  std::set<Length> seen;
  std::map<std::string, Length> named;
  for (const OpenInput& input : opening.inputs) {
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      const Length length = length_of(input, axis);
      if (length == Length::kOther) continue;
      seen.insert(length);
      const std::string& name = input.shape[axis].name;
      if (!name.empty() && named.try_emplace(name, length).first->second != length) return false;
    }
  }
  return seen.size() == 3;
}

// Sizes of these dimensions that fit each other: those of given arrays, else one new place, as in
// most runs. Both lengths differ in `other`.
void choose_lengths(const Opening& opening, const OptimizeOptions& options, int64_t most_guessed,
                    Sizes& sizes, std::map<Length, int64_t>& first,
                    std::map<Length, int64_t>& other) {
  const int64_t likely_past = std::min<int64_t>(128, most_guessed);
  std::map<Length, Dimension> range;
  for (Length length : {Length::kPast, Length::kNew, Length::kTotal}) {
    for (const OpenInput& input : opening.inputs) {
      for (size_t axis = 0; axis < input.shape.size(); ++axis) {
        if (length_of(input, axis) != length) continue;
        const Dimension& d = range.try_emplace(length, input.shape[axis]).first->second;
        const int64_t likely = length == Length::kPast ? likely_past
                               : length == Length::kNew
                                   ? 1
                                   : first[Length::kPast] + first[Length::kNew];
        const int64_t size =
            std::clamp(likely, d.least, d.most == Dimension::kAny ? INT64_MAX : d.most);
        const auto given = given_size(options, input, axis);
        if (given || !first.contains(length)) {
          first[length] = sizes.of(input.shape[axis], given.value_or(size));
        }
      }
    }
  }
  other[Length::kPast] = other_size(range[Length::kPast], first[Length::kPast]);
  other[Length::kNew] = other_size(range[Length::kNew], first[Length::kNew]);
  other[Length::kTotal] = other[Length::kPast] + other[Length::kNew];
}

// "1x_x224": what is known of a shape, with `batch` where its first dimension is open.
std::string blank_shape(const ShapeRange& range, std::string_view batch) {
  std::string text;
  for (size_t axis = 0; axis < range.size(); ++axis) {
    if (axis > 0) text += 'x';
    text += range[axis].fixed() ? fmt::format("{}", range[axis].least)
            : axis == 0         ? std::string(batch)
                                : "_";
  }
  return text;
}

void choose_shapes(Opening& opening, const OptimizeOptions& options, int64_t most_guessed) {
  Sizes first, other, twice;
  // Given arrays decide before any guess.
  for (const OpenInput& input : opening.inputs) {
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      if (const auto size = given_size(options, input, axis)) first.of(input.shape[axis], *size);
    }
  }
  std::map<Length, int64_t> lengths, other_lengths;
  if (takes_past(opening)) {
    choose_lengths(opening, options, most_guessed, first, lengths, other_lengths);
  }
  for (const OpenInput& input : opening.inputs) {
    Shape shape, changed, doubled;
    bool guessed = false;
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      const Dimension& d = input.shape[axis];
      const auto given = given_size(options, input, axis);
      const auto length = lengths.find(length_of(input, axis));
      const bool known = length != lengths.end();
      const int64_t likely = known ? length->second : first_size(input.shape, axis, most_guessed);
      shape.push_back(first.of(d, given.value_or(likely)));
      const int64_t changed_size =
          known ? other_lengths.at(length->first) : other_size(d, shape.back());
      changed.push_back(other.of(d, changed_size));
      const bool endless = !known && d.most == Dimension::kAny;
      doubled.push_back(twice.of(d, endless ? 2 * shape.back() : changed_size));
      guessed |= !given && axis > 0 && d.most == Dimension::kAny;
    }
    if (guessed) {
      std::string advice = fmt::format(
          "input {} takes {} and {} was tried; give it a shape or a range, as in --shape {}={} or "
          "--shape {}={}, with your sizes for _",
          input.name, shape_range_text(input.shape), shape_text(shape), input.name,
          blank_shape(input.shape, "1"), input.name, blank_shape(input.shape, "1..8"));
      opening.guesses.push_back({opening.first.size(), std::move(advice)});
    }
    opening.first.push_back(std::move(shape));
    opening.other.push_back(std::move(changed));
    opening.doubled.push_back(std::move(doubled));
  }
}

void check_names(const std::vector<onnx::DeclaredInput>& declared, const std::string& source,
                 const OptimizeOptions& options) {
  std::vector<std::string_view> names;
  for (const onnx::DeclaredInput& input : declared) names.push_back(input.name);
  for (const auto& [name, range] : options.ranges) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw_invalid("{}: a shape is given for {}, but the inputs are {}", source, name,
                    fmt::join(names, ", "));
    }
    if (options.shapes.contains(name)) {
      throw_invalid("{}: input {}: a shape and a range are given, and one of them is enough",
                    source, name);
    }
  }
}

}  // namespace

bool Opening::fixed() const {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const OpenInput& input) { return is_fixed(input.shape); });
}

std::string Opening::text(const std::vector<Shape>& shapes) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < shapes.size(); ++i) {
    parts.push_back(fmt::format("{} {}", inputs[i].name, shape_text(shapes[i])));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<OpenPlaces> open_places(const Opening& opening) {
  std::vector<OpenPlaces> all;
  std::map<std::string, size_t> named;
  const bool past = takes_past(opening);
  const auto of = [&](const std::string& name) -> OpenPlaces& {
    const auto [at, fresh] = named.try_emplace(name, all.size());
    if (fresh) all.emplace_back();
    return all[at->second];
  };
  for (bool batch : {false, true}) {
    for (size_t i = opening.inputs.size(); i-- > 0;) {
      const OpenInput& input = opening.inputs[i];
      for (size_t axis = input.shape.size(); axis-- > 0;) {
        const Dimension& d = input.shape[axis];
        if (d.fixed() || (axis == 0) != batch) continue;
        const bool length = past && length_of(input, axis) != Length::kOther;
        const std::string name = length           ? "lengths"
                                 : d.name.empty() ? fmt::format("{} {}", i, axis)
                                                  : ":" + d.name;
        of(name).emplace_back(i, axis);
      }
    }
  }
  return all;
}

Opening with_fixed(Opening opening, const OpenPlaces& places) {
  for (const auto& [i, axis] : places) {
    const int64_t size = opening.first[i][axis];
    opening.inputs[i].shape[axis] = {size, size, {}};
    opening.other[i][axis] = opening.doubled[i][axis] = size;
  }
  return opening;
}

std::optional<std::vector<Shape>> shapes_between(const Opening& opening, int i) {
  if (takes_past(opening)) return std::nullopt;  // whose lengths depend on each other
  Sizes sizes;
  std::vector<Shape> shapes;
  int dimension = 0;
  for (const OpenInput& input : opening.inputs) {
    Shape& shape = shapes.emplace_back();
    for (const Dimension& d : input.shape) {
      if (d.most == Dimension::kAny) return std::nullopt;
      if (d.fixed()) {
        shape.push_back(d.least);
        continue;
      }
      // Multiples of roots of primes lie evenly between whole numbers, and no two alike.
      constexpr double kRoots[] = {1.41421356, 1.73205081, 2.23606798, 2.64575131, 3.31662479};
      const double at = (i + 1) * kRoots[dimension++ % std::size(kRoots)];
      const auto least = static_cast<double>(std::max<int64_t>(d.least, 1));
      const double size =
          least * std::pow(static_cast<double>(d.most) / least, at - std::floor(at));
      // Some models take multiples of a number only.
      const int64_t step = i % 2 == 0 ? 1 : std::max<int64_t>(std::gcd(d.least, d.most), 1);
      const int64_t rounded = std::llround(size / static_cast<double>(step)) * step;
      shape.push_back(sizes.of(d, std::clamp(rounded, d.least, d.most)));
    }
  }
  return shapes;
}

std::optional<Opening> find_opening(const std::vector<onnx::DeclaredInput>& declared,
                                    const std::string& source, const OptimizeOptions& options,
                                    int64_t most_guessed) {
  check_names(declared, source, options);
  Opening opening;
  for (const onnx::DeclaredInput& input : declared) {
    OpenInput open{.name = input.name};
    const auto range = options.ranges.find(input.name);
    const auto shape = options.shapes.find(input.name);
    if (range != options.ranges.end()) {
      open.shape = asked_range(input, range->second, source);
      opening.asked = true;
    } else if (shape != options.shapes.end()) {
      open.shape = fixed_range(shape->second);
      // The name holds the dimensions of other inputs to this size.
      for (size_t i = 0; input.shape && i < input.shape->size() && i < open.shape.size(); ++i) {
        open.shape[i].name = (*input.shape)[i].name;
      }
    } else if (input.shape) {
      open.shape = declared_range(*input.shape);
    } else if (const auto given = options.inputs.find(input.name); given != options.inputs.end()) {
      open.shape = fixed_range(given->second.shape());
    } else {
      return std::nullopt;
    }
    opening.inputs.push_back(std::move(open));
  }
  agree(opening.inputs, source);
  choose_shapes(opening, options, most_guessed);
  return opening;
}

void feed_named(onnx::Reader& reader, const OptimizeOptions& options) {
  std::set<std::string> names;
  for (const auto& [name, shape] : options.shapes) names.insert(name);
  for (const auto& [name, range] : options.ranges) names.insert(name);
  for (const auto& [name, tensor] : options.inputs) names.insert(name);
  reader.feed(names);
}

std::string memory_advice(const Opening& opening) {
  const auto elements = [&](const Opening::Guess& guess) {
    return element_count(opening.first[guess.input]);
  };
  const auto largest =
      std::max_element(opening.guesses.begin(), opening.guesses.end(),
                       [&](const auto& a, const auto& b) { return elements(a) < elements(b); });
  return largest == opening.guesses.end() ? "" : largest->advice;
}

namespace {

// The first shapes with the open dimensions of one input, but for its batch, and those of the same
// names, one larger.
std::vector<Shape> with_larger(const Opening& opening, size_t input) {
  std::set<std::string> names;
  const ShapeRange& own = opening.inputs[input].shape;
  for (size_t axis = 1; axis < own.size(); ++axis) {
    if (!own[axis].name.empty()) names.insert(own[axis].name);
  }
  std::vector<Shape> shapes = opening.first;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const Dimension& d = opening.inputs[i].shape[axis];
      const bool varied = (i == input && axis > 0) || names.contains(d.name);
      if (!d.fixed() && varied) ++shapes[i][axis];
    }
  }
  return shapes;
}

// Why the model cannot have these shapes; empty if it can.
std::string import_refusal(onnx::Reader& reader, const Opening& opening,
                           const std::vector<Shape>& shapes) {
  onnx::ImportOptions with;
  for (size_t i = 0; i < opening.inputs.size(); ++i) {
    with.shapes[opening.inputs[i].name] = shapes[i];
  }
  try {
    reader.import(with);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// What to say to a refusal of the first shapes. Of several guesses only those are to blame with
// which the refusal changes.
std::string shape_advice(onnx::Reader& reader, const Opening& opening, const std::string& problem) {
  const std::vector<Opening::Guess>& guesses = opening.guesses;
  if (guesses.empty()) {
    return opening.asked
               ? fmt::format("with {}, which the ranges allow", opening.text(opening.first))
               : "";
  }
  constexpr size_t kMostTrials = 8;  // every one imports the model
  std::vector<std::string> advice;
  for (size_t i = 0; guesses.size() > 1 && i < std::min(guesses.size(), kMostTrials); ++i) {
    const auto shapes = with_larger(opening, guesses[i].input);
    if (import_refusal(reader, opening, shapes) != problem) advice.push_back(guesses[i].advice);
  }
  if (advice.empty()) return guesses.front().advice;
  return fmt::format("{}", fmt::join(advice, "; "));
}

}  // namespace

namespace {

onnx::ImportOptions with_first(const Opening& opening, onnx::ImportOptions with) {
  for (size_t i = 0; i < opening.inputs.size(); ++i) {
    with.shapes[opening.inputs[i].name] = opening.first[i];
  }
  return with;
}

// Throws what reader.import() throws, with advice.
ImportedModel import_at(onnx::Reader& reader, const Opening& opening, onnx::ImportOptions with) {
  try {
    return reader.import(with_first(opening, std::move(with)));
  } catch (const InvalidArgument& error) {
    const std::string advice = shape_advice(reader, opening, error.what());
    if (advice.empty()) throw;
    throw SampleRefused(fmt::format("{} ({})", error.what(), advice));
  } catch (const ir::NotStraight&) {
    throw;
  } catch (const Unsupported& error) {
    const std::string advice = shape_advice(reader, opening, error.what());
    if (advice.empty()) throw;
    throw Unsupported(fmt::format("{} ({})", error.what(), advice));
  }
}

}  // namespace

FirstImport import_first(onnx::Reader& reader, const std::vector<onnx::DeclaredInput>& declared,
                         const std::string& source, const OptimizeOptions& options,
                         const Guessing& guessing) {
  const onnx::ImportOptions with{.shapes = options.shapes};
  auto opening = find_opening(declared, source, options, guessing.most);
  if (!opening) return {.opening = {}, .model = reader.import(with)};
  const auto noted = [](ImportedModel model, std::string_view why) {
    if (why.empty()) return model;
    model.notes.push_back(fmt::format("larger sizes were guessed first, and refused: {}", why));
    return model;
  };
  try {
    ImportedModel model = import_at(reader, *opening, with);
    return {.opening = std::move(opening), .model = noted(std::move(model), guessing.why)};
  } catch (const SampleRefused& refused) {
    if (opening->guesses.empty()) throw;
    for (int64_t smaller : kSmallerGuesses) {
      if (smaller >= guessing.most) continue;
      opening = find_opening(declared, source, options, smaller);
      try {
        ImportedModel model = reader.import(with_first(*opening, with));
        return {.opening = std::move(opening), .model = noted(std::move(model), refused.what())};
      } catch (const InvalidArgument&) {
        continue;
      }
    }
    throw;
  }
}

ImportedModel import_to_look_at(const std::string& onnx_path, const OptimizeOptions& options) {
  const auto reader = onnx::Reader::of_file(onnx_path);
  feed_named(*reader, options);
  return import_first(*reader, reader->inputs(), onnx_path, options).model;
}

}  // namespace stretto::runtime
