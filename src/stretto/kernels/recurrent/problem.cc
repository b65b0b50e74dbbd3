#include "stretto/kernels/recurrent/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {
namespace {

constexpr std::string_view kCellNames[] = {"rnn", "gru", "lstm"};

std::string functions_text(const RecurrentProblem& p) {
  std::string text;
  for (int d = 0; d < p.directions; ++d) {
    for (int i = 0; i < p.function_count(); ++i) {
      const RecurrentFunction& f = p.functions[d][i];
      text += fmt::format(" {}", activation_name(f.activation));
      if (f.alpha != 0 || f.beta != 0) text += fmt::format(":{}:{}", f.alpha, f.beta);
    }
  }
  return text;
}

}  // namespace

RecurrentArgs recurrent_args(const RecurrentProblem& p, const Args& args) {
  size_t in = 0, out = 0;
  const auto input = [&](bool there) { return there ? args.inputs[in++] : nullptr; };
  const auto output = [&](bool there) {
    return static_cast<float*>(there ? args.outputs[out++] : nullptr);
  };
  RecurrentArgs a{};
  a.x = static_cast<const float*>(input(true));
  a.lengths = static_cast<const int32_t*>(input(p.lengths));
  a.initial_h = static_cast<const float*>(input(p.initial_h));
  a.initial_c = static_cast<const float*>(input(p.initial_c));
  a.y = output(p.y);
  a.y_h = output(p.y_h);
  a.y_c = output(p.y_c);
  return a;
}

std::string problem_key(const RecurrentProblem& p) {
  std::string text = fmt::format("{} {}x{}x{}>{}", kCellNames[static_cast<int>(p.cell)], p.steps,
                                 p.batch, p.inputs, p.hidden);
  text += p.directions == 2 ? " both" : p.reverse[0] ? " reverse" : "";
  const auto flag = [&](bool set, std::string_view name) {
    if (set) text += name;
  };
  flag(p.batch_first, " batch_first");
  flag(p.lengths, "+lengths");
  flag(p.initial_h, "+h");
  flag(p.initial_c, "+c");
  flag(p.bias, "+bias");
  flag(p.peephole, "+peephole");
  flag(p.input_forget, " input_forget");
  flag(p.linear_before_reset, " linear_before_reset");
  flag(p.y, " >y");
  flag(p.y_h, " >h");
  flag(p.y_c, " >c");
  if (p.clips) text += fmt::format(" clip{}", p.clip);
  return text + functions_text(p) + " " + target_text(p.target);
}

std::string weights_key(RecurrentProblem p) {
  p.target.threads = 1;
  p.target.panel_width = 0;
  p.steps = p.batch = 0;
  return problem_key(p);
}

Signature problem_signature(const RecurrentProblem& p) {
  const int64_t rows = p.gates() * p.hidden, d = p.directions;
  const Shape state = p.batch_first ? Shape{p.batch, d, p.hidden} : Shape{d, p.batch, p.hidden};
  Signature s;
  s.inputs.push_back({.name = "x",
                      .shape = p.batch_first ? Shape{p.batch, p.steps, p.inputs}
                                             : Shape{p.steps, p.batch, p.inputs}});
  if (p.lengths)
    s.inputs.push_back({.name = "lengths", .dtype = DType::kInt32, .shape = {p.batch}});
  if (p.initial_h) s.inputs.push_back({.name = "initial_h", .shape = state});
  if (p.initial_c) s.inputs.push_back({.name = "initial_c", .shape = state});
  s.constants.push_back({.name = "weight", .shape = {d, rows, p.inputs}});
  s.constants.push_back({.name = "recurrent", .shape = {d, rows, p.hidden}});
  if (p.bias) s.constants.push_back({.name = "bias", .shape = {d, 2 * rows}});
  if (p.peephole) s.constants.push_back({.name = "peephole", .shape = {d, 3 * p.hidden}});
  if (p.y) {
    s.outputs.push_back({.name = "y",
                         .shape = p.batch_first ? Shape{p.batch, p.steps, d, p.hidden}
                                                : Shape{p.steps, d, p.batch, p.hidden}});
  }
  if (p.y_h) s.outputs.push_back({.name = "h", .shape = state});
  if (p.y_c) s.outputs.push_back({.name = "c", .shape = state});
  return s;
}

double problem_flops(const RecurrentProblem& p) {
  return 2.0 * static_cast<double>(p.steps * p.batch) *
         static_cast<double>(p.directions * p.gates() * p.hidden) *
         static_cast<double>(p.inputs + p.hidden);
}

}  // namespace stretto::kernels
