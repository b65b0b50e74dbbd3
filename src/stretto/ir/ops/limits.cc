#include "stretto/ir/ops/limits.h"

namespace stretto::ir {

std::span<const OperatorLimit> operator_limits() {
  static constexpr OperatorLimit kLimits[] = {
      {"BatchNormalization", "inference only: training_mode 1 is refused"},
      {"ConstantOfShape", "the value of input must be known when the model is optimised"},
      {"Dropout", "inference only: it passes its input on"},
      {"Expand", "the value of shape must be known when the model is optimised"},
      {"GRU", "sequence_lens below 0 or above the number of steps count as those"},
      {"If", "the condition must be known when the model is optimised"},
      {"LSTM", "clip bounds what gates are made of and not the cell, as in ONNX Runtime"},
      {"LSTM", "sequence_lens below 0 or above the number of steps count as those"},
      {"OneHot", "the value of depth must be known when the model is optimised"},
      {"Pad", "the values of pads and axes must be known when the model is optimised"},
      {"RNN", "sequence_lens below 0 or above the number of steps count as those"},
      {"Range", "the values of start, limit and delta must be known when the model is optimised"},
      {"ReduceL1", "the value of axes must be known when the model is optimised"},
      {"ReduceL2", "the value of axes must be known when the model is optimised"},
      {"ReduceLogSum", "the value of axes must be known when the model is optimised"},
      {"ReduceLogSumExp", "the value of axes must be known when the model is optimised"},
      {"ReduceMax", "the value of axes must be known when the model is optimised"},
      {"ReduceMean", "the value of axes must be known when the model is optimised"},
      {"ReduceMin", "the value of axes must be known when the model is optimised"},
      {"ReduceProd", "the value of axes must be known when the model is optimised"},
      {"ReduceSum", "the value of axes must be known when the model is optimised"},
      {"ReduceSumSquare", "the value of axes must be known when the model is optimised"},
      {"Reshape", "the value of shape must be known when the model is optimised"},
      {"Resize", "align_corners counts with the output's integer length, as exporters do"},
      {"Resize", "the values of scales and sizes must be known when the model is optimised"},
      {"Slice",
       "the values of starts, ends, axes and steps must be known when the model is optimised"},
      {"Split", "the value of split must be known when the model is optimised"},
      {"Squeeze", "the value of axes must be known when the model is optimised"},
      {"Tile", "the value of repeats must be known when the model is optimised"},
      {"TopK", "the value of K must be known when the model is optimised"},
      {"Unsqueeze", "the value of axes must be known when the model is optimised"},
  };
  return kLimits;
}

}  // namespace stretto::ir
