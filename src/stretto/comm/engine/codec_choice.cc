#include "stretto/comm/engine/codec_choice.h"

namespace stretto::comm {

bool is_coded(const Operation& op, const Options& options) {
  const bool own = !op.codec.empty();
  // The others that options may name need several operations and are for gradients (comm/gradient).
  if (!own && !is_codec(options.codec)) return false;
  return (own ? op.codec : options.codec) != "none" && op.kind == Kind::kAllReduce &&
         op.dtype == DType::kFloat32 &&
         (op.reduction == ReduceOp::kSum || op.reduction == ReduceOp::kAverage);
}

void choose_codec(OpenOperation& open, const Options& options, NamedResiduals* residuals) {
  Operation& op = open.operation;
  const bool coded = is_coded(op, options);
  if (!coded) op.codec.clear();
  if (coded && op.codec.empty()) op.codec = options.codec;
  open.codec = coded ? &find_codec(op.codec) : nullptr;
  if (coded && open.codec->feedback && !op.residual && !op.name.empty())
    op.residual = residuals->of(open.group, op.name, op.count);
}

}  // namespace stretto::comm
