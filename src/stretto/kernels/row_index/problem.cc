#include "stretto/kernels/row_index/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const RowIndexProblem& p) {
  return fmt::format("row_index {}x{} to {} {}", p.batch, p.length, p.rows, target_text(p.target));
}

Signature problem_signature(const RowIndexProblem& p) {
  constexpr DType kInt32 = DType::kInt32;
  return {.inputs = {{.name = "mask", .dtype = DType::kBool, .shape = {p.batch, p.length}}},
          .constants = {},
          .outputs = {{.name = "rows", .dtype = kInt32, .shape = {p.rows}},
                      {.name = "places", .dtype = kInt32, .shape = {p.batch * p.length}},
                      {.name = "starts", .dtype = kInt32, .shape = {p.batch + 1}},
                      {.name = "positions", .dtype = kInt32, .shape = {p.rows}},
                      {.name = "samples", .dtype = kInt32, .shape = {p.rows}}}};
}

double problem_flops(const RowIndexProblem&) { return 0; }

}  // namespace stretto::kernels
