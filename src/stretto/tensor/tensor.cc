#include "stretto/tensor/tensor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "stretto/base/memory.h"
#include "stretto/tensor/narrow.h"

namespace stretto {
namespace {

// Calls f(T{}) with the C++ type that stores `dtype`; half types are handled by the caller.
template <typename F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUInt8:
      return f(uint8_t{});
    case DType::kUInt16:
      return f(uint16_t{});
    case DType::kUInt32:
      return f(uint32_t{});
    case DType::kUInt64:
      return f(uint64_t{});
    case DType::kBool:
      return f(bool{});
    default:
      throw_invalid("tensor: {} values cannot be converted directly", dtype_name(dtype));
  }
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

Tensor widen(const Tensor& half) {
  Tensor out(DType::kFloat32, half.shape());
  const auto* bits = static_cast<const uint16_t*>(half.data());
  auto values = out.mutable_values<float>();
  const bool brain = half.dtype() == DType::kBFloat16;
  for (int64_t i = 0; i < half.count(); ++i) {
    values[i] = brain ? bfloat16_to_float(bits[i]) : half_to_float(bits[i]);
  }
  return out;
}

Tensor narrow(const Tensor& single, DType dtype) {
  Tensor out(dtype, single.shape());
  auto* bits = static_cast<uint16_t*>(out.mutable_data());
  const auto values = single.values<float>();
  const bool brain = dtype == DType::kBFloat16;
  for (int64_t i = 0; i < single.count(); ++i) {
    bits[i] = brain ? float_to_bfloat16(values[i]) : float_to_half(values[i]);
  }
  return out;
}

}  // namespace

std::shared_ptr<std::byte[]> allocate(size_t bytes) {
  constexpr size_t kLargest = size_t{1} << 62;
  const bool large = bytes >= 2 * kHugePage;
  const size_t alignment = large ? kHugePage : kAlignment;
  if (bytes > kLargest)
    throw_unsupported("memory: {} bytes are more than a processor can address", bytes);
  const size_t size = (bytes + kAlignment + alignment - 1) / alignment * alignment;
  const auto taken = static_cast<int64_t>(size);
  take_memory(taken);
  void* memory = large ? allocate_in_huge_pages(size) : std::aligned_alloc(alignment, size);
  if (memory == nullptr) {
    return_memory(taken);
    throw_unsupported("memory: the system refused {} bytes", bytes);
  }
  std::memset(memory, 0, size);
  return {static_cast<std::byte*>(memory), [taken](std::byte* p) {
            std::free(p);
            return_memory(taken);
          }};
}

Tensor::Tensor(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), count_(element_count(shape_)) {
  auto memory = allocate(bytes());
  data_ = memory.get();
  owner_ = std::move(memory);
}

Tensor::Tensor(DType dtype, Shape shape, const void* data, std::shared_ptr<const void> owner)
    : dtype_(dtype),
      shape_(std::move(shape)),
      count_(element_count(shape_)),
      data_(data),
      owner_(std::move(owner)) {}

void Tensor::check_type(DType dtype) const {
  if (dtype_ != dtype) {
    throw_invalid("tensor: expected {} values, got {}", dtype_name(dtype), dtype_name(dtype_));
  }
}

Tensor Tensor::reshaped(Shape shape) const {
  if (element_count(shape) != count_) {
    throw_invalid("reshape: {} does not hold the {} elements of {}", shape_text(shape), count_,
                  shape_text(shape_));
  }
  Tensor out = *this;
  out.shape_ = std::move(shape);
  return out;
}

Tensor Tensor::converted(DType dtype) const {
  if (dtype_ == dtype && (is_half(dtype) || is_narrow(dtype))) {
    Tensor out(dtype, shape_);
    if (bytes() > 0) std::memcpy(out.mutable_data(), data_, bytes());
    return out;
  }
  if (is_narrow(dtype_)) return unnarrowed(*this).converted(dtype);
  if (is_narrow(dtype)) return narrowed(*this, dtype);
  if (is_half(dtype_)) return widen(*this).converted(dtype);
  if (is_half(dtype)) return narrow(converted(DType::kFloat32), dtype);
  Tensor out(dtype, shape_);
  with_type(dtype_, [&]<typename From>(From) {
    with_type(dtype, [&]<typename To>(To) {
      const From* from = static_cast<const From*>(data_);
      To* to = static_cast<To*>(out.mutable_data());
      for (int64_t i = 0; i < count_; ++i) {
        if constexpr (std::is_same_v<To, bool>) {
          to[i] = from[i] != From{};
        } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
          // Out-of-range conversions are undefined in C++; go through int64 where that is exact.
          to[i] = std::isfinite(from[i]) && std::fabs(from[i]) < 9.2e18
                      ? static_cast<To>(static_cast<int64_t>(from[i]))
                      : To{};
        } else {
          to[i] = static_cast<To>(from[i]);
        }
      }
    });
  });
  return out;
}

std::vector<int64_t> Tensor::as_int64s() const {
  if (is_float(dtype_)) throw_invalid("tensor: expected integers, got {}", dtype_name(dtype_));
  const Tensor wide = converted(DType::kInt64);
  const auto values = wide.values<int64_t>();
  return {values.begin(), values.end()};
}

std::vector<double> Tensor::as_doubles() const {
  const Tensor wide = converted(DType::kFloat64);
  const auto values = wide.values<double>();
  return {values.begin(), values.end()};
}

}  // namespace stretto
