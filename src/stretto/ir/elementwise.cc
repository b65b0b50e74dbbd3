// The text form of stretto.Elementwise programs.
#include <fmt/format.h>

#include <charconv>

#include "stretto/base/error.h"
#include "stretto/ir/fused.h"
#include "stretto/tensor/elementwise.h"

namespace stretto::ir {
namespace {

constexpr int kMaxInputs = 8;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

// "x3" or "t12" with the letter given: the number; -1 otherwise.
int numbered(std::string_view text, char letter) {
  if (text.size() < 2 || text[0] != letter) return -1;
  int number = -1;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : -1;
}

ElementwiseArg parse_argument(std::string_view text, int results) {
  using Kind = ElementwiseArg::Kind;
  if (const int input = numbered(text, 'x'); input >= 0) {
    if (input >= kMaxInputs) throw_invalid("program: '{}': inputs are x0 to x7", text);
    return {.kind = Kind::kInput, .index = input};
  }
  if (const int result = numbered(text, 't'); result >= 0) {
    if (result >= results) throw_invalid("program: '{}' is used before it is assigned", text);
    return {.kind = Kind::kResult, .index = result};
  }
  double literal = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), literal);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    throw_invalid("program: expected xN, tN or a number, got '{}'", text);
  }
  return {.kind = Kind::kLiteral, .literal = literal};
}

ElementwiseStep parse_step(std::string_view text, int number) {
  const size_t equals = text.find('='), open = text.find('('), close = text.rfind(')');
  if (equals == text.npos || open == text.npos || open < equals || close != text.size() - 1) {
    throw_invalid("program: expected 'tN = Op(arguments)', got '{}'", text);
  }
  if (numbered(trimmed(text.substr(0, equals)), 't') != number) {
    throw_invalid("program: expected an assignment to t{}, got '{}'", number, text);
  }
  ElementwiseStep step{.op = std::string(trimmed(text.substr(equals + 1, open - equals - 1)))};
  std::string_view list = text.substr(open + 1, close - open - 1);
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    step.args.push_back(parse_argument(trimmed(list.substr(0, comma)), number));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  const ElementRow* row = find_element(step.op);
  if (row == nullptr || row->use == ElementRow::Use::kKernel) {
    throw_invalid("program: no operation '{}' in '{}'", step.op, text);
  }
  if (static_cast<int>(step.args.size()) != row->arguments()) {
    throw_invalid("program: {} takes {} arguments, got {} in '{}'", step.op, row->arguments(),
                  step.args.size(), text);
  }
  return step;
}

std::string argument_text(const ElementwiseArg& arg) {
  switch (arg.kind) {
    case ElementwiseArg::Kind::kInput:
      return fmt::format("x{}", arg.index);
    case ElementwiseArg::Kind::kResult:
      return fmt::format("t{}", arg.index);
    case ElementwiseArg::Kind::kLiteral:
      return fmt::format("{}", arg.literal);
  }
  return {};
}

}  // namespace

std::vector<ElementwiseStep> parse_elementwise(std::string_view program) {
  std::vector<ElementwiseStep> steps;
  while (!trimmed(program).empty()) {
    const size_t end = std::min(program.find(';'), program.size());
    steps.push_back(parse_step(trimmed(program.substr(0, end)), static_cast<int>(steps.size())));
    program.remove_prefix(std::min(end + 1, program.size()));
  }
  if (steps.empty()) throw_invalid("program: expected at least one assignment, got none");
  return steps;
}

std::string elementwise_text(const std::vector<ElementwiseStep>& steps) {
  std::string text;
  for (size_t i = 0; i < steps.size(); ++i) {
    text += fmt::format("{}t{} = {}(", i == 0 ? "" : "; ", i, steps[i].op);
    for (size_t j = 0; j < steps[i].args.size(); ++j) {
      text += fmt::format("{}{}", j == 0 ? "" : ", ", argument_text(steps[i].args[j]));
    }
    text += ")";
  }
  return text;
}

std::vector<bool> truth_of(const std::vector<ElementwiseStep>& steps,
                           const std::vector<bool>& inputs) {
  std::vector<bool> truth;
  const auto is_truth = [&](const ElementwiseArg& arg) {
    const auto i = static_cast<size_t>(arg.index);
    if (arg.kind == ElementwiseArg::Kind::kInput) return bool{inputs[i]};
    if (arg.kind == ElementwiseArg::Kind::kResult) return bool{truth[i]};
    return arg.literal == 0 || arg.literal == 1;
  };
  for (const ElementwiseStep& step : steps) {
    const ElementRow& row = *find_element(step.op);
    const bool chosen =
        row.op == ElementOp::kWhere && is_truth(step.args[1]) && is_truth(step.args[2]);
    const bool copied = row.op == ElementOp::kCopy && is_truth(step.args[0]);
    truth.push_back(row.truth || chosen || copied);
  }
  return truth;
}

int elementwise_operations(const std::vector<ElementwiseStep>& steps) {
  int count = 0;
  for (const ElementwiseStep& step : steps) {
    ++count;
    for (int i = 0; i < find_element(step.op)->operands; ++i) {
      count += step.args[static_cast<size_t>(i)].kind == ElementwiseArg::Kind::kLiteral ? 1 : 0;
    }
  }
  return count;
}

}  // namespace stretto::ir
