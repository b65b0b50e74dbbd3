#include "stretto/kernels/concat_channels/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

int64_t ConcatChannelsProblem::out_channels() const {
  int64_t sum = 0;
  for (int i = 0; i < inputs; ++i) sum += count[i];
  return sum;
}

std::string problem_key(const ConcatChannelsProblem& p) {
  std::string text = fmt::format("concat_channels {}x{}x{} of", p.n, p.h, p.w);
  for (int i = 0; i < p.inputs; ++i) {
    text += fmt::format(" {}+{}/{}", p.first[i], p.count[i], p.channels[i]);
  }
  return text + " " + target_text(p.target);
}

Signature problem_signature(const ConcatChannelsProblem& p) {
  Signature s;
  for (int i = 0; i < p.inputs; ++i) {
    s.inputs.push_back(
        {.name = "x", .shape = {p.n, p.channels[i], p.h, p.w}, .layout = Layout::kBlocked});
  }
  s.outputs.push_back(
      {.name = "y", .shape = {p.n, p.out_channels(), p.h, p.w}, .layout = Layout::kBlocked});
  return s;
}

double problem_flops(const ConcatChannelsProblem&) { return 0; }

}  // namespace stretto::kernels
