// Cases of operators that read or write images at places of their own: grids, regions, offsets,
// blocks and indices of pools.
#include <numeric>

#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {

void grid_sample(CaseDraw& d) {
  const int64_t rank = d.one_of<int64_t>({2, 1, 2, 3});
  Shape x{d.between(1, 2), d.dim(3)}, grid{x[0]};
  for (int64_t i = 0; i < rank; ++i) {
    x.push_back(d.dim(5));
    grid.push_back(d.dim(5));
  }
  grid.push_back(rank);
  d.text("mode", "linear", {"nearest", "cubic"});
  d.text("padding_mode", "zeros", {"border", "reflection"});
  d.toggle("align_corners");
  d.input(x, Fill::kTame);
  d.either(grid, Fill::kTame);
}

void roi_align(CaseDraw& d) {
  const int64_t regions = d.between(1, 4), batch = d.between(1, 3);
  d.text("coordinate_transformation_mode", "half_pixel", {"output_half_pixel"});
  d.text("mode", "avg", {"max"});
  d.integer("output_height", 1, {2, 3});
  d.integer("output_width", 1, {2, 3});
  d.integer("sampling_ratio", 0, {1, 2});
  d.number("spatial_scale", 1, {0.5, 2});
  std::vector<int64_t> batches(static_cast<size_t>(regions));
  for (int64_t& at : batches) at = d.between(0, batch - 1);
  std::vector<double> rois;
  for (int64_t i = 0; i < 2 * regions; ++i) {
    rois.push_back(static_cast<double>(d.between(0, 5)) * 0.75);
    rois.push_back(static_cast<double>(d.between(0, 5)) * 0.75);
  }
  d.input({batch, d.dim(3), d.dim(9), d.dim(9)}, Fill::kTame);
  d.fixed_numbers({regions, 4}, rois);
  d.fixed(batches);
}

void deform_conv(CaseDraw& d) {
  const int64_t group = d.integer("group", 1, {2}), moved = d.integer("offset_group", 1, {2});
  const int64_t in = 2 * d.between(1, 2), out = 2 * d.between(1, 2);
  const Shape x{d.between(1, 2), in, 4 + d.dim(3), 4 + d.dim(3)};
  const Shape kernel{d.between(1, 3), d.between(1, 3)};
  if (d.maybe()) d.set("kernel_shape", kernel);
  const std::vector<int64_t> strides = d.integers("strides", 2, 1, {2});
  const std::vector<int64_t> dilations = d.integers("dilations", 2, 1, {2});
  const std::vector<int64_t> pads = d.integers("pads", 4, 0, {1, 2});
  Shape y;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t room = x[2 + i] + pads[i] + pads[2 + i] - (kernel[i] - 1) * dilations[i] - 1;
    y.push_back(room / strides[i] + 1);
  }
  const int64_t taps = moved * kernel[0] * kernel[1];
  d.input(x, Fill::kTame);
  d.weight({out, in / group, kernel[0], kernel[1]}, Fill::kTame);
  d.input({x[0], 2 * taps, y[0], y[1]}, Fill::kTame);
  d.maybe() ? d.weight({out}) : d.absent();
  d.maybe() ? d.input({x[0], taps, y[0], y[1]}, Fill::kTame) : d.absent();
}

void col2im(CaseDraw& d) {
  const int64_t rank = d.one_of<int64_t>({2, 1, 3});
  std::vector<int64_t> image, block;
  for (int64_t i = 0; i < rank; ++i) {
    image.push_back(2 + d.dim(4));
    block.push_back(d.between(1, 2));
  }
  const std::vector<int64_t> strides = d.integers("strides", rank, 1, {2});
  const std::vector<int64_t> dilations = d.integers("dilations", rank, 1, {2});
  const std::vector<int64_t> pads = d.integers("pads", 2 * rank, 0, {1});
  int64_t blocks = 1, taps = 1;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t room = image[i] + pads[i] + pads[rank + i] - (block[i] - 1) * dilations[i] - 1;
    blocks *= room / strides[i] + 1;
    taps *= block[i];
  }
  d.input({d.between(1, 2), d.between(1, 3) * taps, blocks}, Fill::kTame);
  d.fixed(image);
  d.fixed(block);
}

void max_unpool(CaseDraw& d) {
  const int64_t rank = d.one_of<int64_t>({2, 1, 3});
  Shape x{d.between(1, 2), d.between(1, 3)}, kernel;
  for (int64_t i = 0; i < rank; ++i) {
    x.push_back(1 + d.dim(4));
    kernel.push_back(d.between(2, 3));
  }
  d.set("kernel_shape", kernel);
  const std::vector<int64_t> strides = d.integers("strides", rank, 1, {2});
  const std::vector<int64_t> pads = d.integers("pads", 2 * rank, 0, {1, 0});
  Shape y = x;
  for (int64_t i = 0; i < rank; ++i) {
    y[2 + i] = (x[2 + i] - 1) * strides[i] - pads[i] - pads[rank + i] + kernel[i];
    if (y[2 + i] < 0) y[2 + i] = 0;
  }
  d.input(x);
  d.index(x, element_count(y));
  if (d.rarely()) {
    y.back() += 1;
    d.fixed(y);
  } else {
    d.absent();
  }
}

void non_max_suppression(CaseDraw& d) {
  const int64_t batch = d.between(1, 2), classes = d.between(1, 2), boxes = d.dim(7);
  d.toggle("center_point_box");
  d.weight({batch, boxes, 4}, Fill::kTame);
  d.weight({batch, classes, boxes}, Fill::kTame);
  d.maybe() ? d.fixed_scalar(static_cast<double>(d.between(0, 5))) : d.absent();
  d.maybe() ? d.fixed_scalar(d.one_of({0.5, 0.25, 0.0})) : d.absent();
  d.maybe() ? d.fixed_scalar(d.one_of({0.0, 0.5})) : d.absent();
}

}  // namespace stretto::ir::cases
