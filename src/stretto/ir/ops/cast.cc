// Cast to the type named by the attribute `to` (NumPy's name: "float32", "int64", "bool"), and
// CastLike to the type of another tensor. Floats to integers truncate.
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kCastInputs[] = {{"input"}};
constexpr Port kCastLikeInputs[] = {{"input"}, {"target_type"}};
constexpr Port kOutputs[] = {{"output"}};
// `saturate` concerns 8-bit floats only, which do not occur here.
constexpr AttributeSpec kCastAttributes[] = {{"saturate", AttributeKind::kInt},
                                             {"to", AttributeKind::kString, true}};
constexpr AttributeSpec kCastLikeAttributes[] = {{"saturate", AttributeKind::kInt}};

void infer_cast(Inference& c) {
  c.set_output(0, parse_dtype(c.attributes().text("to", "")), c.shape(0));
}

void infer_cast_like(Inference& c) { c.set_output(0, c.dtype(1), c.shape(0)); }

void evaluate(Evaluation& c) {
  const Tensor& input = c.inputs[0];
  c.outputs[0] = input.dtype() == c.output_dtypes[0] ? input : input.converted(c.output_dtypes[0]);
}

}  // namespace

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
