// The text that configures operators.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/media/operators/operator.h"

namespace stretto::media::operators {
namespace {

constexpr uint32_t kMostRepeats = 8;

std::string_view trimmed(std::string_view s) {
  const auto begin = s.find_first_not_of(" \t\n");
  if (begin == s.npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t\n") - begin + 1);
}

std::string parameters_of(const Operator& op) {
  std::string text;
  for (const Parameter& p : op.parameters) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", p.name, p.standard);
  }
  return fmt::format("{}({})", op.name, text);
}

double number(const Operator& op, const Parameter& p, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= p.low && value <= p.high) || (p.whole && value != std::floor(value))) {
    throw_invalid("operators: {} of {}: expected a {}number from {} to {}, got '{}'", p.name,
                  op.name, p.whole ? "whole " : "", p.low, p.high, text);
  }
  return value;
}

// `given`: a bit for each parameter that has a value.
void set(Configured& c, size_t place, std::string_view argument, uint64_t& given) {
  const auto once = [&](size_t i) {
    if ((given >> i & 1) != 0) {
      throw_invalid("operators: {} of {} is given twice", c.op->parameters[i].name, c.op->name);
    }
    given |= uint64_t{1} << i;
  };
  const auto equals = argument.find('=');
  const auto& known = c.op->parameters;
  if (equals == argument.npos) {
    if (place >= known.size()) {
      throw_invalid("operators: too many parameters: {}", parameters_of(*c.op));
    }
    once(place);
    c.parameters[place] = number(*c.op, known[place], argument);
    return;
  }
  const std::string_view name = trimmed(argument.substr(0, equals));
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i].name != name) continue;
    once(i);
    c.parameters[i] = number(*c.op, known[i], trimmed(argument.substr(equals + 1)));
    return;
  }
  throw_invalid("operators: there is no parameter '{}': {}", name, parameters_of(*c.op));
}

// What no range of one parameter says.
void check(const Configured& c) {
  const auto value = [&](std::string_view name) -> const double* {
    for (size_t i = 0; i < c.op->parameters.size(); ++i) {
      if (c.op->parameters[i].name == name) return &c.parameters[i];
    }
    return nullptr;
  };
  for (const auto& [low, high] : {std::pair{"min_area", "max_area"},
                                  {"min_ratio", "max_ratio"},
                                  {"sigma_low", "sigma_high"}}) {
    const double *a = value(low), *b = value(high);
    if (a != nullptr && b != nullptr && *a > *b) {
      throw_invalid("operators: {}: expected {} <= {}, got {} and {}", c.op->name, low, high, *a,
                    *b);
    }
  }
  const double* size = value("size");
  if (size != nullptr && std::fmod(*size, 2) != 1) {
    throw_invalid("operators: size of {}: expected an odd number, got {}", c.op->name, *size);
  }
}

}  // namespace

Operators parse_operators(std::string_view text) {
  Operators operators;
  std::string_view rest = trimmed(text);
  while (!rest.empty()) {
    const auto end = rest.find_first_of("(,");
    Configured c{.op = &operator_named(trimmed(rest.substr(0, end)))};
    for (size_t i = 0; i < c.op->parameters.size(); ++i) {
      c.parameters[i] = c.op->parameters[i].standard;
    }
    if (end != rest.npos && rest[end] == '(') {
      const auto close = rest.find(')', end);
      if (close == rest.npos) throw_invalid("operators: '{}': a ) is missing", rest);
      std::string_view arguments = trimmed(rest.substr(end + 1, close - end - 1));
      uint64_t given = 0;
      for (size_t place = 0; !arguments.empty(); ++place) {
        const auto comma = arguments.find(',');
        set(c, place, trimmed(arguments.substr(0, comma)), given);
        if (comma == arguments.npos) break;
        arguments = trimmed(arguments.substr(comma + 1));
        if (arguments.empty()) throw_invalid("operators: '{}': a value is missing", rest);
      }
      rest = trimmed(rest.substr(close + 1));
    } else {
      rest = end == rest.npos ? std::string_view{} : rest.substr(end);
    }
    check(c);
    c.repeat = static_cast<uint32_t>(std::count_if(
        operators.begin(), operators.end(), [&](const Configured& o) { return o.op == c.op; }));
    if (c.repeat >= kMostRepeats) {
      throw_invalid("operators: {}: at most {} times", c.op->name, kMostRepeats);
    }
    operators.push_back(c);
    if (rest.empty()) break;
    if (rest[0] != ',') throw_invalid("operators: expected a comma before '{}'", rest);
    rest = trimmed(rest.substr(1));
    if (rest.empty()) throw_invalid("operators: '{}': nothing after the last comma", text);
  }
  return operators;
}

std::string operators_text(const Operators& operators) {
  std::string text;
  for (const Configured& c : operators) {
    std::string values;
    for (size_t i = 0; i < c.op->parameters.size(); ++i) {
      values +=
          fmt::format("{}{}={}", i == 0 ? "" : ", ", c.op->parameters[i].name, c.parameters[i]);
    }
    text += fmt::format("{}{}({})", text.empty() ? "" : ", ", c.op->name, values);
  }
  return text;
}

}  // namespace stretto::media::operators
