#include "npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace stretto::cli {
namespace {

struct TypeCode {
  std::string_view descr;
  DType dtype;
};
constexpr TypeCode kTypeCodes[] = {
    {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}, {"<f2", DType::kFloat16},
    {"|i1", DType::kInt8},    {"<i2", DType::kInt16},   {"<i4", DType::kInt32},
    {"<i8", DType::kInt64},   {"|u1", DType::kUInt8},   {"<u2", DType::kUInt16},
    {"<u4", DType::kUInt32},  {"<u8", DType::kUInt64},  {"|b1", DType::kBool},
};

struct Header {
  DType dtype = DType::kUndefined;
  bool fortran_order = false;
  Shape shape;
};

// The value after 'key': in the Python dictionary that a header is, up to the end of the text.
std::optional<std::string_view> value_of(std::string_view header, std::string_view key) {
  for (char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    const size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    const size_t begin = header.find_first_not_of(" :", at + quoted.size());
    if (begin != std::string_view::npos) return header.substr(begin);
  }
  return std::nullopt;
}

DType parse_descr(std::string_view value, const std::string& file) {
  const size_t end = value.size() > 1 ? value.find(value[0], 1) : std::string_view::npos;
  if (end == std::string_view::npos)
    throw FormatError(file, -1, "npy: the element type is not a string");
  const std::string_view descr = value.substr(1, end - 1);
  for (const TypeCode& code : kTypeCodes) {
    if (code.descr == descr) return code.dtype;
  }
  throw FormatError(file, -1,
                    fmt::format("npy: element type {} is not a little-endian number or "
                                "bool; convert it with numpy.ndarray.astype",
                                descr));
}

Shape parse_tuple(std::string_view value, const std::string& file) {
  const size_t end = value.find(')');
  if (value.empty() || value[0] != '(' || end == std::string_view::npos) {
    throw FormatError(file, -1, "npy: the shape is not a tuple");
  }
  Shape shape;
  const char* at = value.data() + 1;
  const char* const stop = value.data() + end;
  while (true) {
    while (at < stop && (*at == ' ' || *at == ',' || *at == 'L')) ++at;
    if (at == stop) return shape;
    int64_t dim = 0;
    const auto [next, error] = std::from_chars(at, stop, dim);
    if (error != std::errc() || dim < 0)
      throw FormatError(file, -1, "npy: the shape has a dimension that is no size");
    shape.push_back(dim);
    at = next;
  }
}

Header parse_header(std::string_view text, const std::string& file) {
  const auto descr = value_of(text, "descr");
  const auto order = value_of(text, "fortran_order");
  const auto shape = value_of(text, "shape");
  if (!descr || !order || !shape) {
    throw FormatError(file, -1, "npy: the header lacks descr, fortran_order or shape");
  }
  return {parse_descr(*descr, file), order->substr(0, 4) == "True", parse_tuple(*shape, file)};
}

// Column-major elements into row-major order.
void transpose_fortran(const std::byte* from, std::byte* to, const Shape& shape, size_t element) {
  const int64_t count = element_count(shape);
  Shape index(shape.size(), 0);
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = 1; axis < shape.size(); ++axis) {
    strides[axis] = strides[axis - 1] * shape[axis - 1];
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t source = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) source += index[axis] * strides[axis];
    std::memcpy(to + i * element, from + source * element, element);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& file) {
  const auto byte = [&](size_t i) { return static_cast<size_t>(bytes[i]); };
  if (bytes.size() < 10 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0) {
    throw FormatError(file, 0, "not an .npy file: it does not begin with \\x93NUMPY");
  }
  const bool long_header = byte(6) >= 2;
  const size_t start = long_header ? 12 : 10;
  size_t header_bytes = byte(8) | byte(9) << 8;
  if (long_header) {
    if (bytes.size() < start) throw FormatError(file, 8, "npy: the header is truncated");
    header_bytes |= byte(10) << 16 | byte(11) << 24;
  }
  if (header_bytes > bytes.size() - start)
    throw FormatError(file, 8, "npy: the header is truncated");
  const Header header =
      parse_header({reinterpret_cast<const char*>(bytes.data()) + start, header_bytes}, file);

  const std::span<const std::byte> data = bytes.subspan(start + header_bytes);
  size_t expected = 0;
  try {
    expected = static_cast<size_t>(element_count(header.shape)) * dtype_bytes(header.dtype);
  } catch (const InvalidArgument& e) {
    throw FormatError(file, -1, e.what());
  }
  if (data.size() < expected) {
    throw FormatError(
        file, static_cast<int64_t>(start + header_bytes),
        fmt::format("npy: {} of dtype {} needs {} bytes of data, the file has {}",
                    shape_text(header.shape), dtype_name(header.dtype), expected, data.size()));
  }
  Tensor tensor(header.dtype, header.shape);
  auto* const to = static_cast<std::byte*>(tensor.mutable_data());
  if (header.fortran_order) {
    transpose_fortran(data.data(), to, header.shape, dtype_bytes(header.dtype));
  } else if (expected > 0) {
    std::memcpy(to, data.data(), expected);
  }
  return tensor;
}

std::string npy_bytes(const Tensor& tensor) {
  std::string_view descr;
  for (const TypeCode& code : kTypeCodes) {
    if (code.dtype == tensor.dtype()) descr = code.descr;
  }
  if (descr.empty()) throw_unsupported("npy: NumPy has no type {}", dtype_name(tensor.dtype()));
  std::string shape;
  for (int64_t dim : tensor.shape()) shape += fmt::format("{}, ", dim);
  if (tensor.rank() > 1) shape.resize(shape.size() - 2);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  constexpr size_t kPrefix = 10, kAlign = 64;
  header.resize((kPrefix + header.size() + 1 + kAlign - 1) / kAlign * kAlign - kPrefix, ' ');
  header.back() = '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(static_cast<const char*>(tensor.data()), tensor.bytes());
  return bytes;
}

}  // namespace stretto::cli
