#include <cstring>

#include "stretto/kernels/copy_region/candidates.h"

namespace stretto::kernels::copy_region {
namespace {

Fit fits(const CopyRegionProblem&) { return Fit::yes(0.01); }

void run(const CopyRegionProblem& p, const Args& args, const Worker& worker) {
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(p.dtype));
  const FillBytes fill = fill_bytes(p);
  int64_t count = 1;
  for (int k = 0; k < p.rank; ++k) count *= p.dims[k];
  const Range range = split(count, worker);
  for (int64_t e = range.begin; e < range.end; ++e) {
    const std::byte* from = p.fill ? fill.bytes : nullptr;
    for (int i = 0; i < p.parts; ++i) {
      const CopyPart& part = p.part[i];
      int64_t at = part.in_offset;
      bool inside = true;
      for (int64_t k = p.rank - 1, rest = e; k >= 0; --k) {
        const int64_t index = rest % p.dims[k] - part.out_offset[k];
        rest /= p.dims[k];
        inside = inside && index >= 0 && index < part.extent[k];
        at += index * part.in_stride[k];
      }
      if (inside) from = static_cast<const std::byte*>(args.inputs[part.input]) + at * bytes;
    }
    if (from) std::memcpy(static_cast<std::byte*>(args.outputs[0]) + e * bytes, from, bytes);
  }
}

template <typename T>
FillBytes bytes_of(T value) {
  FillBytes fill{};
  std::memcpy(fill.bytes, &value, sizeof(T));
  return fill;
}

}  // namespace

FillBytes fill_bytes(const CopyRegionProblem& p) {
  const double v = p.fill_value;
  switch (p.dtype) {
    case DType::kFloat32:
      return bytes_of(static_cast<float>(v));
    case DType::kFloat64:
      return bytes_of(v);
    case DType::kFloat16:
      return bytes_of(float_to_half(static_cast<float>(v)));
    case DType::kBFloat16:
      return bytes_of(float_to_bfloat16(static_cast<float>(v)));
    case DType::kBool:
      return bytes_of(static_cast<uint8_t>(v != 0));
    case DType::kUInt64:
      return bytes_of(static_cast<uint64_t>(v));
    default:
      if (is_integer(p.dtype)) return bytes_of(static_cast<int64_t>(v));  // the low bytes count
      return bytes_of(*static_cast<const uint8_t*>(Tensor::scalar(v).converted(p.dtype).data()));
  }
}

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::copy_region
