// Operators of ONNX that take or give strings.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "stretto/base/error.h"
#include "stretto/ir/host/host.h"
#include "stretto/ir/host/regex.h"
#include "stretto/ir/host/utf8.h"

namespace stretto::ir {
namespace {

std::string changed_case(const std::string& text, char32_t (*change)(char32_t)) {
  std::u32string characters = decoded(text);
  for (char32_t& c : characters) c = change(c);
  return encoded(characters);
}

// Cut at a delimiter; at runs of white space where there is none.
std::vector<std::string> pieces_of(const std::string& text, const std::string& delimiter,
                                   int64_t most) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  std::vector<std::string> pieces;
  const auto cuts_left = [&] { return static_cast<int64_t>(pieces.size()) < most; };
  if (!delimiter.empty()) {
    size_t at = 0;
    for (size_t end = 0; cuts_left() && (end = text.find(delimiter, at)) != std::string::npos;) {
      pieces.push_back(text.substr(at, end - at));
      at = end + delimiter.size();
    }
    if (!text.empty()) pieces.push_back(text.substr(at));
    return pieces;
  }
  size_t at = text.find_first_not_of(kSpace);
  while (at != std::string::npos && cuts_left()) {
    const size_t end = text.find_first_of(kSpace, at);
    pieces.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? end : text.find_first_not_of(kSpace, end);
  }
  if (at != std::string::npos) pieces.push_back(text.substr(at));
  return pieces;
}

// As Python writes floats: the shortest text that reads as the same number.
template <typename T>
std::string number_text(T value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

Strings texts_of(const Tensor& x) {
  Strings texts{.shape = x.shape(), .values = {}};
  if (x.dtype() == DType::kFloat32) {
    for (float v : x.values<float>()) texts.values.push_back(number_text(v));
  } else if (is_float(x.dtype())) {
    for (double v : x.as_doubles()) texts.values.push_back(number_text(v));
  } else {
    for (int64_t v : x.as_int64s()) texts.values.push_back(fmt::format("{}", v));
  }
  return texts;
}

double number_of(const HostCall& call, const std::string& text) {
  std::string plain = text;
  std::transform(plain.begin(), plain.end(), plain.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (plain.starts_with('+')) plain.erase(0, 1);
  double value = 0;
  const char* const end = plain.data() + plain.size();
  const auto [at, error] = std::from_chars(plain.data(), end, value);
  if (plain.empty() || error == std::errc::invalid_argument || at != end) {
    call.fail(fmt::format("\"{}\" is no number", text));
  }
  return value;
}

}  // namespace

void host_string_concat(HostCall& call) {
  const Strings &a = call.strings(0), &b = call.strings(1);
  Strings out{.shape = broadcast(a.shape, b.shape), .values = {}};
  const int64_t count = element_count(out.shape);
  const std::vector<int64_t> strides = row_major_strides(out.shape);
  // The element of `x` that stands at place `at` of the output.
  const auto element = [&](const Strings& x, int64_t at) -> const std::string& {
    const std::vector<int64_t> own = row_major_strides(x.shape);
    const size_t lead = out.shape.size() - x.shape.size();
    int64_t place = 0;
    for (size_t axis = 0; axis < x.shape.size(); ++axis) {
      if (x.shape[axis] == 1) continue;
      place += at / strides[lead + axis] % out.shape[lead + axis] * own[axis];
    }
    return x.values[static_cast<size_t>(place)];
  };
  for (int64_t i = 0; i < count; ++i) out.values.push_back(element(a, i) + element(b, i));
  call.outputs[0] = std::move(out);
}

void host_string_split(HostCall& call) {
  const Strings& x = call.strings(0);
  const std::string delimiter = call.attributes.text("delimiter", "");
  const int64_t most = call.attributes.integer("maxsplit", INT64_MAX);
  std::vector<std::vector<std::string>> rows;
  size_t width = 0;
  for (const std::string& text : x.values) {
    rows.push_back(pieces_of(text, delimiter, most < 0 ? INT64_MAX : most));
    width = std::max(width, rows.back().size());
  }
  Strings out{.shape = x.shape, .values = {}};
  out.shape.push_back(static_cast<int64_t>(width));
  Tensor counts(DType::kInt64, x.shape);
  for (size_t i = 0; i < rows.size(); ++i) {
    counts.mutable_values<int64_t>()[i] = static_cast<int64_t>(rows[i].size());
    rows[i].resize(width);
    for (std::string& text : rows[i]) out.values.push_back(std::move(text));
  }
  call.outputs[0] = std::move(out);
  if (call.outputs.size() > 1) call.outputs[1] = std::move(counts);
}

void host_string_normalizer(HostCall& call) {
  const Strings& x = call.strings(0);
  const bool row = x.shape.size() == 2 && x.shape[0] == 1;
  if (x.shape.size() != 1 && !row) {
    call.fail(fmt::format("expected shape C or 1xC, got {}", shape_text(x.shape)));
  }
  const std::string change = call.attributes.text("case_change_action", "NONE");
  if (change != "NONE" && change != "LOWER" && change != "UPPER") {
    call.fail("case_change_action: expected LOWER, UPPER or NONE, got " + change);
  }
  const bool exact = call.attributes.integer("is_case_sensitive", 0) != 0;
  const auto compared = [&](const std::string& text) {
    return exact ? text : changed_case(text, lower_case);
  };
  std::set<std::string> stop;
  if (const Attribute* words = call.attributes.find("stopwords")) {
    if (const auto* list = std::get_if<std::vector<std::string>>(words)) {
      for (const std::string& word : *list) stop.insert(compared(word));
    }
  }
  Strings out{.shape = {}, .values = {}};
  for (const std::string& text : x.values) {
    if (stop.count(compared(text)) > 0) continue;
    out.values.push_back(
        change == "NONE" ? text : changed_case(text, change == "LOWER" ? lower_case : upper_case));
  }
  if (out.values.empty()) out.values.emplace_back();  // ONNX asks for one empty string
  const auto count = static_cast<int64_t>(out.values.size());
  out.shape = row ? Shape{1, count} : Shape{count};
  call.outputs[0] = std::move(out);
}

void host_regex_full_match(HostCall& call) {
  const Strings& x = call.strings(0);
  const Regex regex(call.attributes.text("pattern", ""));
  Tensor out(DType::kBool, x.shape);
  auto* to = static_cast<bool*>(out.mutable_data());
  for (size_t i = 0; i < x.values.size(); ++i) to[i] = regex.matches(x.values[i]);
  call.outputs[0] = std::move(out);
}

void host_cast_strings(HostCall& call) {
  const Attribute* to = call.attributes.find("to");
  const auto* number = to == nullptr ? nullptr : std::get_if<int64_t>(to);
  constexpr int64_t kString = 8;  // in ONNX's numbering, of which the caller knows the others
  const bool to_strings = number != nullptr && *number == kString;
  if (to_strings) {
    call.outputs[0] = call.input(0).is_strings() ? call.inputs[0] : texts_of(call.tensor(0));
    return;
  }
  const Strings& x = call.strings(0);
  const DType dtype = parse_dtype(call.attributes.text("dtype", ""));
  Tensor numbers(is_integer(dtype) ? DType::kInt64 : DType::kFloat64, x.shape);
  for (size_t i = 0; i < x.values.size(); ++i) {
    int64_t whole = 0;
    const std::string& text = x.values[i];
    const char* const end = text.data() + text.size();
    if (numbers.dtype() == DType::kFloat64) {
      numbers.mutable_values<double>()[i] = number_of(call, text);
    } else if (const auto [at, error] = std::from_chars(text.data(), end, whole);
               error == std::errc{} && at == end) {
      numbers.mutable_values<int64_t>()[i] = whole;
    } else {
      const double value = number_of(call, text);
      if (!(std::fabs(value) < 0x1p63)) call.fail(fmt::format("\"{}\" is too large", text));
      numbers.mutable_values<int64_t>()[i] = static_cast<int64_t>(value);
    }
  }
  call.outputs[0] = numbers.converted(dtype);
}

void host_shape_of_strings(HostCall& call) {
  const Shape& shape = call.strings(0).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const auto bound = [&](const char* name, int64_t fallback) {
    const int64_t at = call.attributes.integer(name, fallback);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t begin = bound("start", 0), end = std::max(begin, bound("end", rank));
  call.outputs[0] = Tensor::int64s(Shape(shape.begin() + begin, shape.begin() + end));
}

void host_size_of_strings(HostCall& call) {
  call.outputs[0] = Tensor::scalar<int64_t>(element_count(call.strings(0).shape));
}

}  // namespace stretto::ir
