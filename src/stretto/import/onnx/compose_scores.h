// What the models of domain ai.onnx.ml share: their input, what follows their scores, and labels.
#pragma once

#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {

// Attribute post_transform.
enum class Transform : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
Transform transform_of(const PendingNode& node);

// The first input as rows of float32 (float64 stays, if asked for). One row may have one dimension.
Parts::Id feature_rows(PendingNode& node, bool keep_float64 = false);

// Floats of an attribute, as [shape] of float32. Throws where they are not as many.
Parts::Id floats_attribute(PendingNode& node, std::string_view name, const Shape& shape);

// Rows of scores after the transform.
Parts::Id transformed(PendingNode& node, Parts::Id scores, Transform transform);

// Both columns of a model that has the score [rows, 1] of the second of two classes alone:
// `complement` says whether the other is 1 - score, or -score.
Parts::Id two_columns(PendingNode& node, Parts::Id score, bool complement, Transform transform);

// The integer labels of a classifier in attribute `name`. Throws Unsupported where labels are
// strings: text_labels.h takes those out of a model before.
std::vector<int64_t> class_labels(const PendingNode& node, std::string_view name);

// Labels of rows: of the largest score; and of the second class where the score [rows, 1] is above
// `limit`, else of the first.
Parts::Id label_of_largest(PendingNode& node, Parts::Id scores, const std::vector<int64_t>& labels);
Parts::Id label_above(PendingNode& node, Parts::Id score, double limit,
                      const std::vector<int64_t>& labels);

}  // namespace stretto::onnx
