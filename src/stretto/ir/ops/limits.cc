#include "stretto/ir/ops/limits.h"

namespace stretto::ir {

std::span<const OperatorLimit> operator_limits() {
  static constexpr OperatorLimit kLimits[] = {
      {"AffineGrid", "in stages where size depends on data"},
      {"BlackmanWindow", "in stages where size depends on data"},
      {"CenterCropPad", "in stages where shape depends on data"},
      {"Col2Im", "in stages where image_shape and block_shape depend on data"},
      {"Compress", "in stages where condition depends on data"},
      {"ConstantOfShape", "in stages where input depends on data"},
      {"DFT", "in stages where dft_length and axis depend on data"},
      {"Dropout", "inference only: it passes its input on, and the mask is all true"},
      {"Expand", "in stages where shape depends on data"},
      {"GRU", "sequence_lens below 0 or above the number of steps count as those"},
      {"HammingWindow", "in stages where size depends on data"},
      {"HannWindow", "in stages where size depends on data"},
      {"If", "in stages where the condition depends on data"},
      {"LSTM", "clip bounds what gates are made of and not the cell, as in ONNX Runtime"},
      {"LSTM", "sequence_lens below 0 or above the number of steps count as those"},
      {"Loop", "in stages where the trip count or the condition depend on data"},
      {"MaxUnpool", "in stages where output_shape depends on data"},
      {"MelWeightMatrix", "in stages where all inputs depend on data"},
      {"NonMaxSuppression", "in stages where all inputs depend on data"},
      {"NonZero", "in stages where X depends on data"},
      {"OneHot", "in stages where depth depends on data"},
      {"Pad", "in stages where pads and axes depend on data"},
      {"RNN", "sequence_lens below 0 or above the number of steps count as those"},
      {"Range", "in stages where start, limit and delta depend on data"},
      {"ReduceL1", "in stages where axes depends on data"},
      {"ReduceL2", "in stages where axes depends on data"},
      {"ReduceLogSum", "in stages where axes depends on data"},
      {"ReduceLogSumExp", "in stages where axes depends on data"},
      {"ReduceMax", "in stages where axes depends on data"},
      {"ReduceMean", "in stages where axes depends on data"},
      {"ReduceMin", "in stages where axes depends on data"},
      {"ReduceProd", "in stages where axes depends on data"},
      {"ReduceSum", "in stages where axes depends on data"},
      {"ReduceSumSquare", "in stages where axes depends on data"},
      {"Reshape", "in stages where shape depends on data"},
      {"Resize", "align_corners counts with the output's integer length, as exporters do"},
      {"Resize", "in stages where scales and sizes depend on data"},
      {"STFT", "in stages where frame_step and frame_length depend on data"},
      {"Slice", "in stages where starts, ends, axes and steps depend on data"},
      {"Split", "in stages where split depends on data"},
      {"Squeeze", "in stages where axes depends on data"},
      {"ai.onnx.ml.TreeEnsembleClassifier",
       "two classes that both have weights, and rows whose leaves leave out a class: the label is "
       "that of the largest score"},
      {"ai.onnx.ml.TreeEnsembleRegressor",
       "targets to which no leaf of a row gives anything get their base value"},
      {"TfIdfVectorizer", "on integers only"},
      {"Tile", "in stages where repeats depends on data"},
      {"TopK", "in stages where K depends on data"},
      {"Unique", "in stages where X depends on data"},
      {"Unsqueeze", "in stages where axes depends on data"},
  };
  return kLimits;
}

}  // namespace stretto::ir
