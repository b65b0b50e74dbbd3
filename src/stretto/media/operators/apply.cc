#include "stretto/base/error.h"
#include "stretto/media/operators/operator.h"

namespace stretto::media::operators {
namespace {

// Below it are those of random.h, above it eight for each row's repetitions.
constexpr uint32_t kFirstStream = static_cast<uint32_t>(Draw::kOther) + 1;

void check_pixels(const Pixels& pixels) {
  if (pixels.rgb == nullptr || pixels.width < 1 || pixels.height < 1) {
    throw_invalid("operators: expected a picture, got {}x{}{}", pixels.width, pixels.height,
                  pixels.rgb == nullptr ? " without memory" : "");
  }
}

}  // namespace

Steps draw_steps(const Operators& operators, const SampleKey& key, Size size) {
  Steps steps;
  for (const Configured& c : operators) {
    if (c.op->draw == nullptr) continue;
    const auto stream = static_cast<Draw>(kFirstStream + 8 * c.op->stream + c.repeat);
    SampleRandom random(key.seed, key.epoch, key.sample, stream);
    c.op->draw(c.parameters, size, random, steps);
  }
  return steps;
}

void apply_steps(const Steps& steps, const Pixels& pixels, Work& work) {
  check_pixels(pixels);
  for (const Step& step : steps) {
    if (step.op->apply != nullptr) step.op->apply(step, pixels, work);
  }
}

Steps apply(const Operators& operators, const SampleKey& key, const Pixels& pixels, Work& work) {
  Steps steps = draw_steps(operators, key, {pixels.width, pixels.height});
  apply_steps(steps, pixels, work);
  return steps;
}

std::vector<Region> erased(const Steps& steps) {
  std::vector<Region> regions;
  for (const Step& step : steps) {
    if (step.op->name != "erase") continue;
    const auto at = [&](size_t i) { return static_cast<int64_t>(step.value[i]); };
    regions.push_back({at(0), at(1), at(2), at(3)});
  }
  return regions;
}

std::optional<ColourMatrix> colour_matrix_of(const Steps& steps, const Planes& planes,
                                             const Region& shown) {
  ColourMatrix all;
  float grey_scale = 1;  // what the steps so far have made of the mean grey; others keep it
  for (const Step& step : steps) {
    const auto value = static_cast<float>(step.value[0]);
    const std::string_view name = step.op->name;
    if (name == "brightness") {
      all = then(all, brightness(value));
      grey_scale *= value;
    } else if (name == "contrast") {
      all = then(all, contrast(value, grey_scale * mean_grey(planes, shown)));
    } else if (name == "color") {
      all = then(all, saturation(value));
    } else if (name == "hue") {
      all = then(all, hue(value));
    } else if (name == "grayscale") {
      all = then(all, saturation(0));
    } else if (name != "erase") {
      return std::nullopt;
    }
  }
  return all;
}

Affine affine_of(const Steps& steps, Size size) {
  Affine all;
  for (const Step& step : steps) {
    if (step.op->affine == nullptr) continue;
    // A pixel of the later result is at `next` of the earlier one, and there at `all`.
    const auto a = all.m, b = step.op->affine(step, size).m;
    all.m = {a[0] * b[0] + a[1] * b[3],        a[0] * b[1] + a[1] * b[4],
             a[0] * b[2] + a[1] * b[5] + a[2], a[3] * b[0] + a[4] * b[3],
             a[3] * b[1] + a[4] * b[4],        a[3] * b[2] + a[4] * b[5] + a[5]};
  }
  return all;
}

}  // namespace stretto::media::operators
