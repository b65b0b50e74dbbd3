// NonMaxSuppression: the boxes of each class with the highest scores, without those that overlap a
// better one. How many there are depends on the values, so these must be constants.
#include "stretto/ir/ops/non_max_suppression.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "stretto/ir/not_straight.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir {
namespace ops {
namespace {

constexpr TypeSet kInt64 = type_bit(DType::kInt64);
constexpr Port kInputs[] = {{"boxes", kRealTypes},
                            {"scores", kRealTypes},
                            {"max_output_boxes_per_class", kInt64, Arity::kOptional},
                            {"iou_threshold", kRealTypes, Arity::kOptional},
                            {"score_threshold", kRealTypes, Arity::kOptional}};
constexpr Port kOutputs[] = {{"selected_indices", kInt64}};
constexpr AttributeSpec kAttributes[] = {{"center_point_box", AttributeKind::kInt}};

template <typename T>
struct Box {
  T top, left, bottom, right;
  T area() const { return (bottom - top) * (right - left); }
};

template <typename T>
Box<T> box_of(const T* numbers, bool by_centre) {
  if (by_centre) {
    const T x = numbers[0], y = numbers[1], w = numbers[2] / 2, h = numbers[3] / 2;
    return {y - h, x - w, y + h, x + w};
  }
  const auto [top, bottom] = std::minmax(numbers[0], numbers[2]);
  const auto [left, right] = std::minmax(numbers[1], numbers[3]);
  return {top, left, bottom, right};
}

// The boxes of one class that are kept, each member an array, which loops over them vectorise.
template <typename T>
class Chosen {
 public:
  void clear() { count_ = 0; }
  int64_t count() const { return static_cast<int64_t>(count_); }

  void add(const Box<T>& box) {
    if (count_ == top_.size()) {
      for (auto* list : {&top_, &left_, &bottom_, &right_, &area_}) {
        list->resize(std::max<size_t>(2 * count_, kBlock), T(0));
      }
    }
    top_[count_] = box.top;
    left_[count_] = box.left;
    bottom_[count_] = box.bottom;
    right_[count_] = box.right;
    area_[count_] = box.area();
    ++count_;
  }

  // Whether one of them has more than `most` of the area of both in common with `box`.
  bool covers(const Box<T>& box, T most) const {
    const T area = box.area();
    if (!(area > 0)) return false;
    for (size_t begin = 0; begin < count_; begin += kBlock) {
      int covered = 0;
      // Behind the last one are boxes without area, or of the class before, which are not counted.
      const size_t end = std::min(begin + kBlock, count_);
      for (size_t i = begin; i < end; ++i) {
        const T height = std::min(box.bottom, bottom_[i]) - std::max(box.top, top_[i]);
        const T width = std::min(box.right, right_[i]) - std::max(box.left, left_[i]);
        const T common = height * width;
        const T all = area + area_[i] - common;
        covered |= static_cast<int>(height > 0) & static_cast<int>(width > 0) &
                   static_cast<int>(common > 0) & static_cast<int>(area_[i] > 0) &
                   static_cast<int>(common / all > most);
      }
      if (covered != 0) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kBlock = 16;  // after which it may end
  std::vector<T> top_, left_, bottom_, right_, area_;
  size_t count_ = 0;
};

template <typename T>
struct Candidate {
  T score;
  uint32_t box;
  bool operator<(const Candidate& other) const {
    return static_cast<bool>(
        static_cast<int>(score > other.score) |
        (static_cast<int>(score == other.score) & static_cast<int>(box < other.box)));
  }
};

// Candidates in their order, of which only as many are sorted as are asked for.
template <typename T>
class Order {
 public:
  // `first`: as many as are likely to be looked at.
  Order(std::vector<Candidate<T>>& all, size_t first)
      : all_(all), step_(std::max<size_t>(first, 64)) {}

  const Candidate<T>* next() {
    if (at_ == all_.size()) return nullptr;
    if (at_ == sorted_) {
      const auto begin = all_.begin() + static_cast<std::ptrdiff_t>(sorted_);
      sorted_ = std::min(all_.size(), sorted_ + step_);
      step_ *= 2;
      const auto end = all_.begin() + static_cast<std::ptrdiff_t>(sorted_);
      if (end != all_.end()) std::nth_element(begin, end, all_.end());
      std::sort(begin, end);
    }
    return &all_[at_++];
  }

 private:
  std::vector<Candidate<T>>& all_;
  size_t at_ = 0, sorted_ = 0, step_;
};

struct Limits {
  int64_t boxes = 0;
  double overlap = 0;
  std::optional<double> score;
};

template <typename T>
std::vector<int64_t> kept(const Tensor& boxes, const Tensor& scores, const Limits& limits,
                          bool by_centre) {
  const T *places = data_of<T>(boxes), *values = data_of<T>(scores);
  const int64_t classes = scores.dim(1), count = scores.dim(2);
  const bool limited = limits.score.has_value();
  const T least = static_cast<T>(limits.score.value_or(0)), most = static_cast<T>(limits.overlap);
  std::vector<int64_t> rows;
  if (limits.boxes == 0) return rows;
  std::vector<Candidate<T>> candidates(static_cast<size_t>(count));
  Chosen<T> chosen;
  for (int64_t row = 0; row < scores.dim(0) * classes; ++row) {
    const int64_t batch = row / classes;
    const T* score = values + row * count;
    candidates.resize(static_cast<size_t>(count));
    size_t passed = 0;
    for (int64_t i = 0; i < count; ++i) {
      candidates[passed] = {score[i], static_cast<uint32_t>(i)};
      passed += static_cast<size_t>(limited ? score[i] > least : score[i] == score[i]);
    }
    candidates.resize(passed);
    Order<T> order(candidates, static_cast<size_t>(2 * limits.boxes));
    chosen.clear();
    while (chosen.count() < limits.boxes) {
      const Candidate<T>* best = order.next();
      if (best == nullptr) break;
      const auto i = static_cast<int64_t>(best->box);
      const Box<T> box = box_of(places + (batch * count + i) * 4, by_centre);
      if (chosen.covers(box, most)) continue;
      chosen.add(box);
      rows.insert(rows.end(), {batch, row % classes, i});
    }
  }
  return rows;
}

void check_shapes(const Shape& boxes, const Shape& scores) {
  if (boxes.size() != 3 || boxes[2] != 4 || scores.size() != 3 || scores[0] != boxes[0] ||
      scores[2] != boxes[1]) {
    throw_invalid(
        "boxes, scores: expected [batch, boxes, 4] and [batch, classes, boxes], got {} and {}",
        shape_text(boxes), shape_text(scores));
  }
}

}  // namespace
}  // namespace ops

std::vector<int64_t> non_max_suppression(std::span<const Tensor> inputs, bool by_centre) {
  const Tensor &boxes = inputs[0], &scores = inputs[1];
  ops::check_shapes(boxes.shape(), scores.shape());
  if (boxes.dim(1) > std::numeric_limits<uint32_t>::max()) {
    throw_unsupported("boxes: {} are too many", boxes.dim(1));
  }
  const auto one = [&](size_t i) -> std::optional<double> {
    if (i >= inputs.size() || !inputs[i].defined() || inputs[i].count() == 0) return std::nullopt;
    if (inputs[i].count() > 1) {
      throw_invalid("{}: expected one value, got shape {}", ops::kInputs[i].name,
                    shape_text(inputs[i].shape()));
    }
    return inputs[i].as_doubles()[0];
  };
  const ops::Limits limits{.boxes = static_cast<int64_t>(std::clamp(
                               one(2).value_or(0), 0.0, static_cast<double>(boxes.dim(1)))),
                           .overlap = one(3).value_or(0),
                           .score = one(4)};
  if (boxes.dtype() == DType::kFloat32 && scores.dtype() == DType::kFloat32) {
    return ops::kept<float>(boxes, scores, limits, by_centre);
  }
  return ops::kept<double>(boxes.converted(DType::kFloat64), scores.converted(DType::kFloat64),
                           limits, by_centre);
}

namespace ops {
namespace {

void infer(Inference& c) {
  check_shapes(c.shape(0), c.shape(1));
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
  }
  const bool by_centre = c.attributes().integer("center_point_box", 0) != 0;
  c.set_output(0, DType::kInt64,
               {static_cast<int64_t>(non_max_suppression(inputs, by_centre).size()) / 3, 3});
}

void evaluate(Evaluation& c) {
  const bool by_centre = c.attributes.integer("center_point_box", 0) != 0;
  const std::vector<int64_t> rows = non_max_suppression(c.inputs, by_centre);
  c.outputs[0] = Tensor::of<int64_t>({static_cast<int64_t>(rows.size()) / 3, 3}, rows);
}

}  // namespace

const Operator kNonMaxSuppression{.name = "NonMaxSuppression",
                                  .inputs = kInputs,
                                  .outputs = kOutputs,
                                  .attributes = kAttributes,
                                  .infer = infer,
                                  .evaluate = evaluate};

}  // namespace ops
}  // namespace stretto::ir
