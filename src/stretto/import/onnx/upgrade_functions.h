// The functions of the upgrade table (upgrade.cc), each for one change between opsets.
#pragma once

#include "stretto/import/onnx/upgrade.h"

namespace stretto::onnx {

// Attributes that became inputs.
void axes_input(PendingNode& node);
void clip_limits(PendingNode& node);
void dft_axis(PendingNode& node);
void pad_inputs(PendingNode& node);
void slice_inputs(PendingNode& node);
void split_input(PendingNode& node);
void topk_input(PendingNode& node);

// Operators that were replaced.
void dropout(PendingNode& node);
void resize_10(PendingNode& node);
void scatter(PendingNode& node);
void upsample(PendingNode& node);

// Meanings that changed.
void batch_normalization(PendingNode& node);    // training forms are refused
void bit_cast(PendingNode& node);               // with the type that it casts from
void named_broadcast(PendingNode& node);        // of the second input, from an axis on
void output_sequence(PendingNode& node);        // what the outputs are is known without it
void test_mode(PendingNode& node);              // was said by an attribute
void quantize_precision(PendingNode& node);     // that of divisions
void type_names(PendingNode& node);             // types by name; 0 means absent
void random_like(PendingNode& node);            // and that of the input where none is given
void grid_sample_modes(PendingNode& node);      // their names
void group_normalization(PendingNode& node);    // scale and bias per group -> per channel
void prelu_slope(PendingNode& node);            // one slope per channel without trailing axes
void resize_tf_half_pixel(PendingNode& node);   // a mode of opset 11 and 12 only
void resize_empty_inputs(PendingNode& node);    // empty tensors that mean "absent"
void roi_align_coordinates(PendingNode& node);  // their default
void softmax_of_matrix(PendingNode& node);      // over all axes from `axis` on
void split_count(PendingNode& node);            // equal parts, counted by the outputs

}  // namespace stretto::onnx
