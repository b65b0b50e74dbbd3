// What compositions of quantised operators share: ONNX's own and those of ONNX Runtime.
#pragma once

#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {

// Integers that stand for (values - zero) * scale.
struct Quantized {
  ir::ValueId values = ir::kNone;
  ir::ValueId scale = ir::kNone;
  ir::ValueId zero = ir::kNone;  // kNone: 0
};

ir::ValueId input_or_none(const PendingNode& node, size_t i);

// One number, without axes.
ir::ValueId as_scalar(Parts& parts, ir::ValueId number);

// The product of the values less their zero points, in int32. A zero point is one value, or one per
// row of `a`, per column of `b`.
ir::ValueId integer_matmul(Parts& parts, const Quantized& a, const Quantized& b);

// The scale of that product: one, or one per column. Of `a` there is one scale.
ir::ValueId product_scale(Parts& parts, const PendingNode& node, const Quantized& a,
                          const Quantized& b);
// integer_matmul() times `scale`, in float32.
ir::ValueId scaled_product(Parts& parts, const PendingNode& node, Quantized a, Quantized b,
                           ir::ValueId scale);

// uint8 and the scale that its range asks for, as DynamicQuantizeLinear.
Quantized dynamically_quantized(Parts& parts, ir::ValueId x);

}  // namespace stretto::onnx
