// Identity: y = x.
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"input", kStoredTypes, Arity::kRequired, 'V'}};
constexpr Port kOutputs[] = {{"output", kStoredTypes, Arity::kRequired, 'V'}};

void infer(Inference& c) { c.set_output(0, c.dtype(0), c.shape(0)); }

void evaluate(Evaluation& c) { c.outputs[0] = c.inputs[0]; }

}  // namespace

const Operator kIdentity{.name = "Identity",
                         .inputs = kInputs,
                         .outputs = kOutputs,
                         .attributes = {},
                         .infer = infer,
                         .evaluate = evaluate};

}  // namespace stretto::ir::ops
