#include "stretto/kernels/resize/problem.h"

#include <array>
#include <optional>

#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {
namespace {

using kernels::ResizeProblem;

// The position of `text` among `names`, as the enumeration.
template <typename Enum, size_t kCount>
std::optional<Enum> named(const std::array<std::string_view, kCount>& names,
                          const std::string& text) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// In the order of the kernels' enumerations.
constexpr std::array<std::string_view, 3> kModes{"nearest", "linear", "cubic"};
constexpr std::array<std::string_view, 5> kCoordinates{
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"};
constexpr std::array<std::string_view, 4> kRoundings{"round_prefer_floor", "round_prefer_ceil",
                                                     "floor", "ceil"};

}  // namespace

bool lower_resize(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  const Shape& y = l.shape(node.outputs[0]);
  const ir::Attributes& a = node.attributes;
  const DType dtype = l.graph().value(node.inputs[0]).dtype;
  const bool bytes = dtype == DType::kUInt8 || dtype == DType::kInt8;
  if (x.size() != 4 || x[0] != y[0] || x[1] != y[1]) return false;
  if (!l.is_float32(node.inputs[0]) && !bytes) return false;
  // The rare forms stay with the reference.
  if (a.integer("antialias", 0) != 0 || a.has("axes") ||
      a.text("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return false;
  }
  const auto mode = named<kernels::Resampling>(kModes, a.text("mode", "nearest"));
  const auto coordinates = named<kernels::Coordinates>(
      kCoordinates, a.text("coordinate_transformation_mode", "half_pixel"));
  const auto rounding =
      named<kernels::NearestRounding>(kRoundings, a.text("nearest_mode", "round_prefer_floor"));
  if (!mode || !coordinates || !rounding) return false;
  if (bytes && *mode == kernels::Resampling::kCubic) return false;
  ResizeProblem p{};
  p.target = l.target();
  p.n = x[0];
  p.c = x[1];
  p.h = x[2];
  p.w = x[3];
  p.out_h = y[2];
  p.out_w = y[3];
  p.scale_h = static_cast<double>(p.out_h) / static_cast<double>(p.h);
  p.scale_w = static_cast<double>(p.out_w) / static_cast<double>(p.w);
  if (node.inputs.size() > 2 && node.inputs[2] != ir::kNone) {
    const Tensor* scales = l.constant(node.inputs[2]);
    if (scales == nullptr) return false;
    if (scales->count() == 4) {
      const auto values = scales->as_doubles();
      p.scale_h = values[2];
      p.scale_w = values[3];
    }
  }
  p.cubic_a = static_cast<float>(a.number("cubic_coeff_a", -0.75));
  p.exclude_outside = static_cast<uint8_t>(a.integer("exclude_outside", 0) != 0);
  p.mode = *mode;
  p.coordinates = *coordinates;
  p.rounding = *rounding;
  p.dtype = dtype;
  std::vector<Lowering::Choice<ResizeProblem>> choices;
  for (Layout layout : {Layout::kBlocked, Layout::kPlain}) {
    if (bytes && layout == Layout::kBlocked) continue;
    p.layout = layout;
    choices.push_back({p, {layout}, {layout}});
  }
  return l.add(node, kernels::kResize, {node.inputs[0]}, {node.outputs[0]}, choices);
}

}  // namespace stretto::runtime
