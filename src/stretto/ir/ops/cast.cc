// Cast to the type named by the attribute `to` (NumPy's name: "float32", "int64", "bool"), CastLike
// to the type of another tensor, and BitCast to a type of as many bits. Floats to integers
// truncate.
#include "stretto/ir/ops/table.h"
#include "stretto/tensor/narrow.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kCastInputs[] = {{"input", kStoredTypes}};
constexpr Port kCastLikeInputs[] = {{"input", kStoredTypes}, {"target_type", kStoredTypes}};
constexpr Port kOutputs[] = {{"output", kStoredTypes}};
constexpr AttributeSpec kCastAttributes[] = {{"round_mode", AttributeKind::kString},
                                             {"saturate", AttributeKind::kInt},
                                             {"to", AttributeKind::kString, true}};
constexpr AttributeSpec kCastLikeAttributes[] = {{"round_mode", AttributeKind::kString},
                                                 {"saturate", AttributeKind::kInt}};
constexpr AttributeSpec kBitCastAttributes[] = {{"from", AttributeKind::kString, true},
                                                {"to", AttributeKind::kString, true}};

// Both matter to float8 only.
NarrowOptions narrow_options(const Attributes& attributes) {
  const std::string mode = attributes.text("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") {
    throw_invalid("round_mode: expected up, down or nearest, got {}", mode);
  }
  return {.saturate = attributes.integer("saturate", 1) != 0,
          .rounding = mode == "up"     ? PowerRounding::kUp
                      : mode == "down" ? PowerRounding::kDown
                                       : PowerRounding::kNearest};
}

void infer_cast(Inference& c) {
  narrow_options(c.attributes());
  c.set_output(0, parse_dtype(c.attributes().text("to", "")), c.shape(0));
}

void infer_cast_like(Inference& c) {
  narrow_options(c.attributes());
  c.set_output(0, c.dtype(1), c.shape(0));
}

void evaluate(Evaluation& c) {
  const Tensor& input = c.inputs[0];
  const DType to = c.output_dtypes[0];
  if (input.dtype() == to) {
    c.outputs[0] = input;
  } else if (is_narrow(to)) {
    c.outputs[0] = narrowed(input, to, narrow_options(c.attributes));
  } else {
    c.outputs[0] = input.converted(to);
  }
}

int bits_of(DType dtype) {
  return is_narrow(dtype) ? narrow_bits(dtype) : 8 * static_cast<int>(dtype_bytes(dtype));
}

void infer_bit_cast(Inference& c) {
  const DType to = parse_dtype(c.attributes().text("to", "")), from = c.dtype(0);
  if (parse_dtype(c.attributes().text("from", "")) != from) {
    throw_invalid("from: expected the input's type, {}", dtype_name(from));
  }
  // Not every byte is a bool.
  const bool fits = bits_of(from) == bits_of(to) && (to != DType::kBool || from == DType::kBool);
  if (!fits) {
    throw_invalid("to: {} does not have the bits of {}", dtype_name(to), dtype_name(from));
  }
  c.set_output(0, to, c.shape(0));
}

void evaluate_bit_cast(Evaluation& c) {
  // A reference run may have widened the input: its bits are those of the type it had.
  const DType from = parse_dtype(c.attributes.text("from", "")),
              to = parse_dtype(c.attributes.text("to", ""));
  const Tensor& input = c.inputs[0];
  const auto kept = std::make_shared<Tensor>(input.dtype() == from ? input : input.converted(from));
  c.outputs[0] = Tensor(to, kept->shape(), kept->data(), kept);
}

}  // namespace

const Operator kBitCast{.name = "BitCast",
                        .inputs = kCastInputs,
                        .outputs = kOutputs,
                        .attributes = kBitCastAttributes,
                        .infer = infer_bit_cast,
                        .evaluate = evaluate_bit_cast};

const Operator kCast{.name = "Cast",
                     .inputs = kCastInputs,
                     .outputs = kOutputs,
                     .attributes = kCastAttributes,
                     .infer = infer_cast,
                     .evaluate = evaluate};

const Operator kCastLike{.name = "CastLike",
                         .inputs = kCastLikeInputs,
                         .outputs = kOutputs,
                         .attributes = kCastLikeAttributes,
                         .infer = infer_cast_like,
                         .evaluate = evaluate};

}  // namespace stretto::ir::ops
