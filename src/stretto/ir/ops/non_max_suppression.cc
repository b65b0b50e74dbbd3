// NonMaxSuppression: the boxes of each class with the highest scores, without those that overlap a
// better one. How many there are depends on the values, so these must be constants.
#include <algorithm>
#include <numeric>

#include "stretto/ir/not_straight.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kInt64 = type_bit(DType::kInt64);
constexpr Port kInputs[] = {{"boxes", kRealTypes},
                            {"scores", kRealTypes},
                            {"max_output_boxes_per_class", kInt64, Arity::kOptional},
                            {"iou_threshold", kRealTypes, Arity::kOptional},
                            {"score_threshold", kRealTypes, Arity::kOptional}};
constexpr Port kOutputs[] = {{"selected_indices", kInt64}};
constexpr AttributeSpec kAttributes[] = {{"center_point_box", AttributeKind::kInt}};

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

Box box_of(const double* numbers, bool by_centre) {
  if (by_centre) {
    const double x = numbers[0], y = numbers[1], w = numbers[2] / 2, h = numbers[3] / 2;
    return {y - h, x - w, y + h, x + w};
  }
  const auto [top, bottom] = std::minmax(numbers[0], numbers[2]);
  const auto [left, right] = std::minmax(numbers[1], numbers[3]);
  return {top, left, bottom, right};
}

// Common area over that of both; 0 when one of them has none.
double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0 && width > 0 && a.area() > 0 && b.area() > 0)) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

// Batch, class and box of each one that is kept. `inputs` are undefined where absent.
std::vector<int64_t> kept(std::span<const Tensor> inputs, bool by_centre) {
  const auto one = [&](size_t i, double fallback) {
    if (i >= inputs.size() || !inputs[i].defined() || inputs[i].count() == 0) return fallback;
    return inputs[i].as_doubles()[0];
  };
  const Shape &boxes = inputs[0].shape(), &scores = inputs[1].shape();
  const std::vector<double> places = inputs[0].as_doubles(), values = inputs[1].as_doubles();
  const auto most = static_cast<int64_t>(std::clamp(one(2, 0), 0.0, static_cast<double>(boxes[1])));
  const double most_overlap = one(3, 0);
  const bool limited = inputs.size() > 4 && inputs[4].defined() && inputs[4].count() > 0;
  const double least_score = one(4, 0);
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < scores[0] * scores[1]; ++row) {
    const int64_t batch = row / scores[1];
    const double* score = values.data() + row * scores[2];
    std::vector<int64_t> order(static_cast<size_t>(scores[2]));
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](int64_t i) {
      return !(score[i] == score[i]) || (limited && !(score[i] > least_score));
    });
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t i, int64_t j) { return score[i] > score[j]; });
    std::vector<Box> chosen;
    for (int64_t i : order) {
      if (static_cast<int64_t>(chosen.size()) >= most) break;
      const Box box = box_of(places.data() + (batch * boxes[1] + i) * 4, by_centre);
      const bool covered = std::any_of(chosen.begin(), chosen.end(), [&](const Box& better) {
        return overlap(box, better) > most_overlap;
      });
      if (covered) continue;
      chosen.push_back(box);
      rows.insert(rows.end(), {batch, row % scores[1], i});
    }
  }
  return rows;
}

void infer(Inference& c) {
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (boxes.size() != 3 || boxes[2] != 4 || scores.size() != 3 || scores[0] != boxes[0] ||
      scores[2] != boxes[1]) {
    throw_invalid(
        "boxes, scores: expected [batch, boxes, 4] and [batch, classes, boxes], got {} and {}",
        shape_text(boxes), shape_text(scores));
  }
  std::vector<Tensor> inputs;
  for (int i = 0; i < c.input_count(); ++i) {
    inputs.emplace_back();
    if (!c.has_input(i)) continue;
    if (c.constant(i) == nullptr) {
      throw_not_straight(
          "{} must be known when the model is optimised, but it depends on the model's input "
          "values",
          kInputs[i].name);
    }
    inputs.back() = *c.constant(i);
    if (i > 1 && inputs.back().count() > 1) {
      throw_invalid("{}: expected one value, got shape {}", kInputs[i].name,
                    shape_text(inputs.back().shape()));
    }
  }
  const bool by_centre = c.attributes().integer("center_point_box", 0) != 0;
  c.set_output(0, DType::kInt64, {static_cast<int64_t>(kept(inputs, by_centre).size()) / 3, 3});
}

void evaluate(Evaluation& c) {
  const bool by_centre = c.attributes.integer("center_point_box", 0) != 0;
  const std::vector<int64_t> rows = kept(c.inputs, by_centre);
  c.outputs[0] = Tensor::of<int64_t>({static_cast<int64_t>(rows.size()) / 3, 3}, rows);
}

}  // namespace

const Operator kNonMaxSuppression{.name = "NonMaxSuppression",
                                  .inputs = kInputs,
                                  .outputs = kOutputs,
                                  .attributes = kAttributes,
                                  .infer = infer,
                                  .evaluate = evaluate};

}  // namespace stretto::ir::ops
