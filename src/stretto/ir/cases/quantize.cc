// Cases of operators on integers and on types of 8 bits and less, and of those that choose
// elements.
#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {

namespace {

// The shape of the scale of a tensor: one value, one per channel, or one per block.
Shape draw_scale(CaseDraw& d, const Shape& x) {
  const auto rank = static_cast<int64_t>(x.size());
  const int64_t axis = d.axis_attribute("axis", 1, rank), at = axis < 0 ? axis + rank : axis;
  const int64_t block = d.integer("block_size", 0, {0, 2, 3});
  if (block == 0) return d.maybe() ? Shape{x[at]} : Shape{};
  Shape scale = x;
  scale[at] = (x[at] + block - 1) / block;
  return scale;
}

}  // namespace

void quantize(CaseDraw& d) {
  Shape x = d.shape(2, 4, 9);
  d.text("precision", "", {"float32", "float16", "bfloat16"});
  d.toggle("saturate", true);
  const Shape scale = draw_scale(d, x);
  const bool typed = d.maybe();
  if (typed) {
    d.set("output_dtype", std::string(d.one_of<std::string_view>(
                              {"uint8", "int8", "int16", "uint16", "int4", "uint4", "int2", "uint2",
                               "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"})));
  }
  d.input(x);
  d.either(scale, Fill::kPositive);
  typed ? d.absent() : d.either(scale, Fill::kPositive);
}

void dequantize(CaseDraw& d) {
  const Shape x = d.shape(2, 4, 9);
  const Shape scale = draw_scale(d, x);
  if (d.rarely()) d.set("output_dtype", std::string("float16"));
  d.input(x);
  d.either(scale, Fill::kPositive);
  d.maybe() ? d.either(scale, Fill::kPositive) : d.absent();
}

void integer_linear(CaseDraw& d) {
  const int64_t k = d.dim(33), n = d.dim(33);
  Shape x = d.shape(0, 2, 7);
  x.push_back(k);
  d.input(x);
  d.weight({k, n});
  d.either(d.maybe() ? Shape{n} : Shape{}, Fill::kPositive);
  d.maybe() ? d.either({}) : d.absent();
  d.maybe() ? d.weight({n}, Fill::kTame) : d.absent();
}

void bit_cast(CaseDraw& d) {
  const std::pair<std::string_view, std::vector<std::string_view>> kPairs[] = {
      {"float32", {"int32", "uint32", "float32"}},
      {"int64", {"float64", "uint64"}},
      {"float16", {"bfloat16", "int16"}},
      {"uint8", {"int8", "float8_e4m3fn"}},
      {"int4", {"uint4", "float4_e2m1fn"}}};
  const DType from = d.next_type();
  std::string to(dtype_name(from));
  for (const auto& [name, others] : kPairs) {
    if (name == dtype_name(from)) {
      to = others[d.choose(static_cast<uint32_t>(others.size()))];
    }
  }
  d.set("from", std::string(dtype_name(from)));
  d.set("to", to);
  d.typed_input(from, d.shape(0, 4));
}

void bit_shift(CaseDraw& d) {
  d.set("direction", std::string(d.maybe() ? "LEFT" : "RIGHT"));
  const Shape full = d.shape(0, 4);
  d.input(full, Fill::kWide);
  d.either(d.partner(full), d.rarely() ? Fill::kWide : Fill::kPositive);
}

void is_inf(CaseDraw& d) {
  d.toggle("detect_negative", true);
  d.toggle("detect_positive", true);
  d.input(d.shape(0, 4), Fill::kWide);
}

void compress(CaseDraw& d) {
  const Shape shape = d.shape(1, 4, 9);
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t size = element_count(shape);
  if (d.maybe()) {
    const int64_t axis = d.axis(rank);
    d.set("axis", axis);
    size = shape[axis < 0 ? axis + rank : axis];
  }
  std::vector<int64_t> condition(static_cast<size_t>(d.rarely() ? size / 2 : size));
  for (int64_t& keep : condition) keep = d.maybe() ? 1 : 0;
  d.input(shape);
  d.fixed(condition);
}

void nonzero(CaseDraw& d) { d.weight(d.shape(1, 4, 9)); }

void unique(CaseDraw& d) {
  const Shape shape = d.shape(1, 3, 9);
  if (d.maybe()) d.set("axis", d.axis(static_cast<int64_t>(shape.size())));
  d.toggle("sorted", true);
  d.outputs(4);
  d.weight(shape);
}

}  // namespace stretto::ir::cases
