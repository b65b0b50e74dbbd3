// Cases of operators over images: convolutions, pools, resizing; and stretto.Linear, which shares
// the convolutions' epilogue.
#include <algorithm>
#include <numeric>

#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {

namespace {

enum class Pool { kMax, kAverage, kNorm };

void draw_pool(CaseDraw& d, Pool pool) {
  const int64_t rank = d.one_of<int64_t>({2, 1, 2, 3, 2});
  Shape shape{d.batch(), d.dim(19)}, kernel;
  for (int64_t i = 0; i < rank; ++i) shape.push_back(d.dim(rank == 3 ? 4 : rank == 2 ? 9 : 17));
  for (int64_t i = 0; i < rank; ++i) kernel.push_back(d.between(1, 4));
  d.set("kernel_shape", kernel);
  d.integers("strides", rank, 1, {2, 3});
  d.integers("dilations", rank, 1, {2});
  d.toggle("ceil_mode");
  if (d.text("auto_pad", "NOTSET", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}) == "NOTSET") {
    d.integers("pads", 2 * rank, 0, {1, 2});
  }
  if (pool == Pool::kNorm) {
    d.integer("p", 2, {1, 3});
  } else if (pool == Pool::kMax) {
    d.toggle("storage_order");
    d.outputs(d.rarely() ? 2 : 1);
  } else {
    d.toggle("count_include_pad");
  }
  d.input(shape);
}

void draw_epilogue(CaseDraw& d, int64_t channels, const Shape& output) {
  const std::string activation =
      d.text("activation", "none",
             {"relu", "clip", "leaky_relu", "sigmoid", "silu", "hard_sigmoid", "hard_swish", "tanh",
              "gelu", "gelu_tanh", "elu", "none"});
  if (activation == "clip") {
    d.set("alpha", -0.5);
    d.set("beta", 1.5);
  } else if (activation == "hard_sigmoid") {
    d.set("alpha", 0.2);
    d.set("beta", 0.5);
  } else if (activation == "leaky_relu" || activation == "elu") {
    d.set("alpha", 0.25);
  }
  const bool residual = d.maybe();
  if (residual) d.toggle("residual_after_activation");
  d.maybe() ? d.weight({channels}) : d.absent();
  residual ? d.input(output) : d.absent();
}

// Few channels; now and then those that kernels of their own are for: 3x3 over 16 and more, as many
// out as in, in groups of 2, 4 and 8, and 1x1 over an even number of blocks.
void draw_conv(CaseDraw& d, bool fused) {
  enum Kind { kAnything, kThreeByThree, kSquare, kPointwise };
  const Kind kind = d.one_of({kAnything, kAnything, kAnything, kThreeByThree, kSquare, kPointwise});
  const int64_t rank = kind == kAnything ? d.one_of<int64_t>({2, 2, 2, 1, 2, 3}) : 2;
  const bool whole = kind == kThreeByThree || kind == kPointwise;
  const int64_t groups = whole ? 1 : d.integer("group", 1, {2, 1, 4, 16});
  const bool depthwise = kind == kAnything && (groups == 16 || d.rarely());
  int64_t in = depthwise         ? 1
               : kind == kSquare ? d.one_of<int64_t>({2, 4, 2, 8, 16})
                                 : d.one_of<int64_t>({1, 2, 3, 4, 8, 5, 16});
  int64_t out = depthwise ? 1 : d.one_of<int64_t>({1, 2, 3, 4, 8, 17, 16, 32});
  if (kind == kThreeByThree) {
    in = d.one_of<int64_t>({16, 17, 20});
    out = d.one_of<int64_t>({16, 17, 20});
  } else if (kind == kSquare) {
    out = in;
  } else if (kind == kPointwise) {
    in = out = 32;
  }
  Shape x{d.batch(), groups * in}, weight{groups * out, in};
  const int64_t extent = kind == kAnything    ? d.one_of<int64_t>({1, 3, 3, 2, 1, 5, 3, 7})
                         : kind == kPointwise ? 1
                                              : 3;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t room =
        std::max<int64_t>(kMaxCaseElements / std::max<int64_t>(element_count(x), 1), 1);
    x.push_back(d.dim(std::min<int64_t>(rank == 3 ? 5 : rank == 2 ? 13 : 33, room)));
    const bool square = fused || !d.rarely();
    weight.push_back(square ? extent : d.between(1, 3));
  }
  if (element_count(weight) > kMaxCaseElements) weight[0] = groups;
  if (d.maybe()) d.set("kernel_shape", Shape(weight.begin() + 2, weight.end()));
  const int64_t stride = d.one_of<int64_t>({1, 1, 2, 1, 2, 3});
  if (stride != 1) d.set("strides", Shape(static_cast<size_t>(rank), stride));
  if (kind == kAnything) d.integers("dilations", rank, 1, {1, 2});
  const bool padded = d.maybe();
  if (padded) d.set("pads", Shape(static_cast<size_t>(2 * rank), extent / 2));
  if (!padded &&
      d.text("auto_pad", "NOTSET", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}) == "NOTSET") {
    d.integers("pads", 2 * rank, 0, {1, 2});
  }
  d.input(x);
  d.weight(weight, Fill::kTame);
  if (fused) {
    draw_epilogue(d, weight[0], d.output_shape());
    if (d.rarely()) d.set("exact", int64_t{1});
  } else {
    d.maybe() ? d.weight({weight[0]}) : d.absent();
  }
}

void draw_conv_transpose(CaseDraw& d, bool fused) {
  const bool doubling = d.one_of({0, 0, 0, 1}) == 1;  // 4x4, stride 2, pads 1 over 16 channels
  const int64_t rank = doubling ? 2 : d.one_of<int64_t>({2, 2, 2, 1, 2, 2, 3});
  const int64_t groups = doubling ? 1 : d.integer("group", 1, {2, 1, 4});
  const int64_t in = doubling ? 16 : d.one_of<int64_t>({1, 2, 3, 8, 16});
  const int64_t out = doubling ? 16 : d.one_of<int64_t>({1, 2, 3, 8, 17});
  Shape x{std::max<int64_t>(d.batch(), 1), groups * in}, weight{groups * in, out};
  const int64_t extent = doubling ? 4 : d.one_of<int64_t>({2, 3, 4, 1, 4, 5});
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t room =
        std::max<int64_t>(kMaxCaseElements / std::max<int64_t>(element_count(x), 1), 1);
    x.push_back(d.dim(std::min<int64_t>(rank == 3 ? 3 : rank == 2 ? 9 : 17, room)));
    weight.push_back(fused || !d.rarely() ? extent : d.between(1, 3));
  }
  if (element_count(weight) > kMaxCaseElements) weight[1] = 1;
  if (d.maybe()) d.set("kernel_shape", Shape(weight.begin() + 2, weight.end()));
  const int64_t stride = doubling ? 2 : d.one_of<int64_t>({1, 2, 2, 3});
  if (stride != 1) d.set("strides", Shape(static_cast<size_t>(rank), stride));
  if (!doubling) d.integers("dilations", rank, 1, {1, 2});
  if (stride > 1 && d.rarely()) d.set("output_padding", Shape(static_cast<size_t>(rank), 1));
  if (!doubling && d.rarely()) {
    Shape wanted;
    for (int64_t i = 0; i < rank; ++i) wanted.push_back(x[2 + i] * stride);
    d.set("output_shape", wanted);
  }
  const bool padded = doubling || d.maybe();
  if (padded) d.set("pads", Shape(static_cast<size_t>(2 * rank), (extent - 1) / 2));
  if (!padded &&
      d.text("auto_pad", "NOTSET", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}) == "NOTSET") {
    d.integers("pads", 2 * rank, 0, {1, 0});
  }
  const int64_t channels = weight[1] * groups;
  d.input(x);
  d.weight(weight, Fill::kTame);
  if (fused) {
    draw_epilogue(d, channels, d.output_shape());
  } else {
    d.maybe() ? d.weight({channels}) : d.absent();
  }
}

}  // namespace

void max_pool(CaseDraw& d) { draw_pool(d, Pool::kMax); }
void average_pool(CaseDraw& d) { draw_pool(d, Pool::kAverage); }
void lp_pool(CaseDraw& d) { draw_pool(d, Pool::kNorm); }
void conv(CaseDraw& d) { draw_conv(d, false); }
void fused_conv(CaseDraw& d) { draw_conv(d, true); }
void conv_transpose(CaseDraw& d) { draw_conv_transpose(d, false); }
void fused_conv_transpose(CaseDraw& d) { draw_conv_transpose(d, true); }

void global_pool(CaseDraw& d) {
  Shape shape{d.batch(), d.dim(19)};
  for (int64_t i = d.one_of<int64_t>({2, 0, 2, 1, 3}); i > 0; --i) shape.push_back(d.dim(5));
  d.input(shape);
}

void linear(CaseDraw& d) {
  const int64_t k = d.dim(33), n = d.dim(33);
  Shape x = d.shape(0, 2, 7);
  x.push_back(k);
  const bool transposed = d.toggle("trans_weight");
  d.input(x);
  d.weight(transposed ? Shape{n, k} : Shape{k, n}, d.rarely() ? Fill::kAny : Fill::kTame);
  x.back() = n;
  draw_epilogue(d, n, x);
}

void resize(CaseDraw& d) {
  Shape shape =
      d.one_of({0, 0, 1}) == 0 ? Shape{d.batch(), d.dim(9), d.dim(9), d.dim(9)} : d.shape(1, 3, 9);
  const auto rank = static_cast<int64_t>(shape.size());
  const std::string mode = d.text("mode", "nearest", {"linear", "cubic", "nearest"});
  const std::string coordinates =
      d.text("coordinate_transformation_mode", "half_pixel",
             {"asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
              "tf_crop_and_resize", "half_pixel"});
  if (mode == "nearest") {
    d.text("nearest_mode", "round_prefer_floor", {"floor", "ceil", "round_prefer_ceil"});
  } else {
    d.toggle("antialias");
    d.toggle("exclude_outside");
    d.number("cubic_coeff_a", -0.75, {-0.5});
  }
  const bool crop = coordinates == "tf_crop_and_resize";
  if (crop) d.number("extrapolation_value", 0, {2.5});
  // Without "axes" the image axes of rank 4 change, all of them otherwise.
  std::vector<int64_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  const bool listed = d.rarely();
  if (listed) {
    axes = d.axes(rank);
    d.set("axes", axes);
  }
  const bool by_size = d.maybe();
  if (by_size) d.text("keep_aspect_ratio_policy", "stretch", {"not_larger", "not_smaller"});
  std::vector<double> scales;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool fixed = !listed && rank == 4 && i < 2;
    scales.push_back(fixed ? 1 : d.one_of({1.0, 2.0, 0.5, 3.0, 1.0 / 3, 0.7, 1.3, 2.5}));
    sizes.push_back(fixed ? shape[i] : d.dim(13));
  }
  d.input(shape, d.maybe() ? Fill::kAny : Fill::kTame);
  if (crop) {
    std::vector<double> roi(2 * axes.size(), 0.25);
    for (size_t i = axes.size(); i < roi.size(); ++i) roi[i] = 1.125;
    d.fixed_numbers({static_cast<int64_t>(roi.size())}, roi);
  } else {
    d.absent();
  }
  if (by_size) {
    d.absent();
    d.fixed(sizes);
  } else {
    d.fixed_numbers({static_cast<int64_t>(scales.size())}, scales);
  }
}

}  // namespace stretto::ir::cases
