// RoiAlign: pools regions of an image, whose bins are read between the pixels.
#include <algorithm>
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"
#include "stretto/tensor/formulas.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'},
                            {"rois", kRealTypes, Arity::kRequired, 'T'},
                            {"batch_indices", type_bit(DType::kInt64)}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"coordinate_transformation_mode", AttributeKind::kString},
                                         {"mode", AttributeKind::kString},
                                         {"output_height", AttributeKind::kInt},
                                         {"output_width", AttributeKind::kInt},
                                         {"sampling_ratio", AttributeKind::kInt},
                                         {"spatial_scale", AttributeKind::kFloat}};

constexpr int64_t kMostSamples = 1 << 10;  // along one axis of a bin

struct Options {
  bool half_pixel, maximum;
  int64_t height, width, samples;
  double scale;
};

Options options_of(const Attributes& attributes) {
  const std::string mode = attributes.text("mode", "avg");
  const std::string coordinates = attributes.text("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") throw_invalid("mode: expected avg or max, got {}", mode);
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
    throw_invalid(
        "coordinate_transformation_mode: expected half_pixel or output_half_pixel, got {}",
        coordinates);
  }
  const Options options{.half_pixel = coordinates == "half_pixel",
                        .maximum = mode == "max",
                        .height = attributes.integer("output_height", 1),
                        .width = attributes.integer("output_width", 1),
                        .samples = attributes.integer("sampling_ratio", 0),
                        .scale = attributes.number("spatial_scale", 1)};
  if (options.height < 1 || options.width < 1) {
    throw_invalid("output_height, output_width: expected positive numbers");
  }
  if (options.samples < 0 || options.samples > kMostSamples) {
    throw_invalid("sampling_ratio: expected 0 to {}, got {}", kMostSamples, options.samples);
  }
  return options;
}

void infer(Inference& c) {
  const Options options = options_of(c.attributes());
  const Shape& x = c.shape(0);
  if (x.size() != 4 || (element_count(x) == 0 && x[1] != 0)) {
    throw_invalid("X: expected shape [batch, channels, height, width], got {}", shape_text(x));
  }
  if (c.shape(2).size() != 1 || c.shape(1) != Shape{c.shape(2)[0], 4}) {
    throw_invalid("rois: expected four numbers per region, got shape {}", shape_text(c.shape(1)));
  }
  c.set_output(0, c.dtype(0), {c.shape(2)[0], x[1], options.height, options.width});
}

// A place between four pixels; no weights outside the image.
struct Place {
  int64_t at[4] = {0, 0, 0, 0};
  double weight[4] = {0, 0, 0, 0};
};

Place place_of(double y, double x, int64_t height, int64_t width) {
  Place place;
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 &&
        x <= static_cast<double>(width))) {
    return place;
  }
  const auto settle = [](double& v, int64_t size, int64_t& low, int64_t& high) {
    v = std::max(v, 0.0);
    low = static_cast<int64_t>(v);
    high = low + 1;
    if (low >= size - 1) {
      low = high = size - 1;
      v = static_cast<double>(low);
    }
  };
  int64_t top = 0, bottom = 0, left = 0, right = 0;
  settle(y, height, top, bottom);
  settle(x, width, left, right);
  const double dy = y - static_cast<double>(top), dx = x - static_cast<double>(left);
  const int64_t rows[2] = {top, bottom}, columns[2] = {left, right};
  const double down[2] = {1 - dy, dy}, across[2] = {1 - dx, dx};
  for (int i = 0; i < 4; ++i) {
    place.at[i] = rows[i / 2] * width + columns[i % 2];
    place.weight[i] = down[i / 2] * across[i % 2];
  }
  return place;
}

// A region as float32 coordinates, which decide the number of samples.
struct Region {
  double start_y, start_x, bin_height, bin_width;
  int64_t samples_y, samples_x;
};

Region region_of(const Options& o, const double* roi) {
  const double offset = o.half_pixel ? 0.5 : 0;
  double height = (roi[3] - roi[1]) * o.scale, width = (roi[2] - roi[0]) * o.scale;
  if (!o.half_pixel) {
    height = std::max(height, 1.0);
    width = std::max(width, 1.0);
  }
  Region r{.start_y = roi[1] * o.scale - offset,
           .start_x = roi[0] * o.scale - offset,
           .bin_height = height / static_cast<double>(o.height),
           .bin_width = width / static_cast<double>(o.width),
           .samples_y = o.samples,
           .samples_x = o.samples};
  const auto adaptive = [](double bin) {
    return static_cast<int64_t>(
        std::isfinite(bin) ? std::clamp(std::ceil(bin), 0.0, static_cast<double>(kMostSamples))
                           : 0);
  };
  if (o.samples == 0) {
    r.samples_y = adaptive(r.bin_height);
    r.samples_x = adaptive(r.bin_width);
  }
  return r;
}

void evaluate(Evaluation& c) {
  const Options o = options_of(c.attributes);
  const Tensor& x = c.inputs[0];
  const std::vector<double> rois = c.inputs[1].as_doubles();
  const std::vector<int64_t> batches = c.inputs[2].as_int64s();
  for (int64_t batch : batches) {
    if (batch < 0 || batch >= x.dim(0)) {
      throw_invalid("batch_indices: {} is outside [0, {})", batch, x.dim(0));
    }
  }
  const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  with_type<kRealTypes>(x.dtype(), [&]<typename T>() {
    T* y = data_of<T>(c.make_output(0));
    const int64_t bins = o.height * o.width;
    const auto regions = static_cast<int64_t>(batches.size());
    parallel(c.team, regions * bins, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t n = at / bins, bin = at % bins;
        const Region r = region_of(o, rois.data() + 4 * n);
        const auto count = static_cast<double>(std::max<int64_t>(r.samples_y * r.samples_x, 1));
        for (int64_t channel = 0; channel < channels; ++channel) {
          const T* plane = data_of<T>(x) + (batches[n] * channels + channel) * height * width;
          double sum = 0, top = 0;
          for (int64_t i = 0; i < r.samples_y * r.samples_x; ++i) {
            const auto iy = static_cast<double>(i / r.samples_x) + 0.5;
            const auto ix = static_cast<double>(i % r.samples_x) + 0.5;
            const auto ph = static_cast<double>(bin / o.width),
                       pw = static_cast<double>(bin % o.width);
            const Place place = place_of(
                r.start_y + ph * r.bin_height +
                    iy * r.bin_height / static_cast<double>(r.samples_y),
                r.start_x + pw * r.bin_width + ix * r.bin_width / static_cast<double>(r.samples_x),
                height, width);
            for (int k = 0; k < 4; ++k) {
              const double value = place.weight[k] * static_cast<double>(plane[place.at[k]]);
              sum += value;
              // ONNX takes the largest weighted pixel, not the largest interpolated value.
              top = i == 0 && k == 0 ? value : formulas::maximum(top, value);
            }
          }
          y[(n * channels + channel) * bins + bin] = static_cast<T>(o.maximum ? top : sum / count);
        }
      }
    });
  });
}

}  // namespace

const Operator kRoiAlign{.name = "RoiAlign",
                         .inputs = kInputs,
                         .outputs = kOutputs,
                         .attributes = kAttributes,
                         .infer = infer,
                         .evaluate = evaluate};

}  // namespace stretto::ir::ops
