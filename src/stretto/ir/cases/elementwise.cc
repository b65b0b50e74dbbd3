// Cases of operators that work element by element.
#include <fmt/format.h>

#include "stretto/ir/cases/table.h"
#include "stretto/tensor/elementwise.h"

namespace stretto::ir::cases {

void unary(CaseDraw& d) { d.input(d.shape(0, 4), Fill::kWide); }

void alpha(CaseDraw& d) {
  d.number("alpha", 1, {0.3, 2});
  unary(d);
}

void alpha_and_beta(CaseDraw& d) {
  d.number("beta", 0.5, {0.7, 1.5});
  alpha(d);
}

void alpha_and_gamma(CaseDraw& d) {
  d.number("gamma", 1.05, {0.7, 1.5});
  alpha(d);
}

void shrink(CaseDraw& d) {
  d.number("bias", 0, {0.3, 2});
  d.number("lambd", 0.5, {0.7, 1.5});
  unary(d);
}

void gelu(CaseDraw& d) {
  d.text("approximate", "none", {"tanh", "none"});
  d.input(d.shape(0, 4), Fill::kWide);
}

void binary(CaseDraw& d) {
  const Shape full = d.shape(0, 4), other = d.partner(full);
  const bool swapped = d.maybe();
  // Now and then both sides broadcast.
  const Shape one = d.rarely() ? d.partner(full) : full;
  d.input(swapped ? other : one, Fill::kWide);
  d.either(swapped ? one : other, Fill::kWide);
}

void variadic(CaseDraw& d) {
  const Shape full = d.shape(0, 4);
  const int64_t count = d.between(1, 4), whole = d.between(0, count - 1);
  for (int64_t i = 0; i < count; ++i) d.input(i == whole ? full : d.partner(full));
}

// An open side lets infinity through.
void clip(CaseDraw& d) {
  const bool bounds[2] = {d.maybe(), d.maybe()};
  d.input(d.shape(0, 4), Fill::kWide);
  for (bool bound : bounds) bound ? d.either({}, Fill::kTame) : d.absent();
}

void mod(CaseDraw& d) {
  d.toggle("fmod");
  const Shape full = d.shape(0, 4);
  d.input(full);
  d.either(d.partner(full));
}

void pow(CaseDraw& d) {
  const Shape full = d.shape(0, 4);
  d.input(full);
  d.either(d.partner(full), Fill::kTame);
}

void prelu(CaseDraw& d) {
  const Shape full = d.shape(0, 4);
  d.input(full);
  d.either(d.partner(full));
}

void where(CaseDraw& d) {
  const Shape full = d.shape(0, 4);
  const int64_t whole = d.between(0, 2);
  for (int64_t i = 0; i < 3; ++i) d.either(i == whole ? full : d.partner(full));
}

// Floats beyond the range of an integer type have no value there.
void cast(CaseDraw& d) {
  d.toggle("saturate", true);
  d.text("round_mode", "up", {"down", "nearest"});
  d.set("to", std::string(d.one_of<std::string_view>(
                  {"float32", "int64", "int32", "bool", "float64", "uint8", "int8", "float16",
                   "float8_e4m3fn", "float8_e5m2fnuz", "float8_e8m0fnu", "int4"})));
  d.input(d.shape(0, 4), Fill::kTame);
}

void cast_like(CaseDraw& d) {
  d.toggle("saturate", true);
  d.text("round_mode", "up", {"down", "nearest"});
  d.input(d.shape(0, 4), Fill::kPositive);
  d.input(d.shape(0, 1));
}

// A program over every operation: results and inputs are picked among those so far.
void fused_elementwise(CaseDraw& d) {
  const Shape full = d.shape(0, 4);
  const int64_t inputs = d.between(1, 4), steps = d.between(1, 5);
  std::vector<const ElementRow*> rows;
  for (const ElementRow& row : element_rows()) {
    if (row.use != ElementRow::Use::kKernel) rows.push_back(&row);
  }
  std::string program;
  for (int64_t s = 0; s < steps; ++s) {
    const ElementRow& row = *rows[d.choose(static_cast<uint32_t>(rows.size()))];
    program += fmt::format("{}t{} = {}(", s == 0 ? "" : "; ", s, row.name);
    for (int i = 0; i < row.arguments(); ++i) {
      if (i > 0) program += ", ";
      if (i > 0 && (row.numbers > 0 || d.rarely())) {
        program += fmt::format("{}", i == 1 ? 0.25 : 1.5);
      } else {
        // The newest result first, so that the program is one chain.
        const bool newest = s > 0 && i == 0;
        const int64_t pick = newest ? inputs + s - 1 : d.between(0, inputs + s - 1);
        program += pick < inputs ? fmt::format("x{}", pick) : fmt::format("t{}", pick - inputs);
      }
    }
    program += ")";
  }
  d.set("program", program);
  if (d.rarely()) d.set("dtype", std::string("float32"));
  for (int64_t i = 0; i < inputs; ++i) d.either(i == 0 ? full : d.partner(full));
}

}  // namespace stretto::ir::cases
