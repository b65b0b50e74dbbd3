#include "stretto/ir/ops/limits.h"

namespace stretto::ir {

std::span<const OperatorLimit> operator_limits() {
  static constexpr OperatorLimit kLimits[] = {
      {"AffineGrid", "the value of size must be known when the model is optimised"},
      {"BlackmanWindow", "the value of size must be known when the model is optimised"},
      {"CenterCropPad", "the value of shape must be known when the model is optimised"},
      {"Col2Im",
       "the values of image_shape and block_shape must be known when the model is optimised"},
      {"Compress", "the value of condition must be known when the model is optimised"},
      {"ConstantOfShape", "the value of input must be known when the model is optimised"},
      {"DFT", "the values of dft_length and axis must be known when the model is optimised"},
      {"Dropout", "inference only: it passes its input on, and the mask is all true"},
      {"Expand", "the value of shape must be known when the model is optimised"},
      {"GRU", "sequence_lens below 0 or above the number of steps count as those"},
      {"HammingWindow", "the value of size must be known when the model is optimised"},
      {"HannWindow", "the value of size must be known when the model is optimised"},
      {"If", "the condition must be known when the model is optimised"},
      {"LSTM", "clip bounds what gates are made of and not the cell, as in ONNX Runtime"},
      {"LSTM", "sequence_lens below 0 or above the number of steps count as those"},
      {"Loop", "the trip count and the condition must be known when the model is optimised"},
      {"MaxUnpool", "the value of output_shape must be known when the model is optimised"},
      {"MelWeightMatrix", "the values of all inputs must be known when the model is optimised"},
      {"NonZero", "the value of X must be known when the model is optimised"},
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
      {"STFT",
       "the values of frame_step and frame_length must be known when the model is optimised"},
      {"Slice",
       "the values of starts, ends, axes and steps must be known when the model is optimised"},
      {"Split", "the value of split must be known when the model is optimised"},
      {"Squeeze", "the value of axes must be known when the model is optimised"},
      {"TfIdfVectorizer", "on integers only"},
      {"Tile", "the value of repeats must be known when the model is optimised"},
      {"TopK", "the value of K must be known when the model is optimised"},
      {"Unique", "the value of X must be known when the model is optimised"},
      {"Unsqueeze", "the value of axes must be known when the model is optimised"},
  };
  return kLimits;
}

}  // namespace stretto::ir
