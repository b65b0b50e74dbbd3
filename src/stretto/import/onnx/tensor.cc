#include "stretto/import/onnx/tensor.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "stretto/ir/limits.h"
#include "stretto/ir/not_straight.h"
#include "stretto/tensor/narrow.h"

namespace stretto::onnx {
namespace {

namespace fs = std::filesystem;

// Far above what models have; keeps a hostile file from making shapes of millions of ones.

struct TypeRow {
  DataType type;
  DType dtype;  // kUndefined: no such tensors here
  std::string_view name;
  uint32_t field = 0;  // where the values stand when they are not raw
};

constexpr TypeRow kTypes[] = {
    {DataType::kFloat, DType::kFloat32, "float", tensor_field::kFloatData},
    {DataType::kUInt8, DType::kUInt8, "uint8", tensor_field::kInt32Data},
    {DataType::kInt8, DType::kInt8, "int8", tensor_field::kInt32Data},
    {DataType::kUInt16, DType::kUInt16, "uint16", tensor_field::kInt32Data},
    {DataType::kInt16, DType::kInt16, "int16", tensor_field::kInt32Data},
    {DataType::kInt32, DType::kInt32, "int32", tensor_field::kInt32Data},
    {DataType::kInt64, DType::kInt64, "int64", tensor_field::kInt64Data},
    {DataType::kString, DType::kUndefined, "string"},
    {DataType::kBool, DType::kBool, "bool", tensor_field::kInt32Data},
    {DataType::kFloat16, DType::kFloat16, "float16", tensor_field::kInt32Data},
    {DataType::kDouble, DType::kFloat64, "double", tensor_field::kDoubleData},
    {DataType::kUInt32, DType::kUInt32, "uint32", tensor_field::kUInt64Data},
    {DataType::kUInt64, DType::kUInt64, "uint64", tensor_field::kUInt64Data},
    {DataType::kComplex64, DType::kUndefined, "complex64"},
    {DataType::kComplex128, DType::kUndefined, "complex128"},
    {DataType::kBFloat16, DType::kBFloat16, "bfloat16", tensor_field::kInt32Data},
    {DataType::kFloat8E4M3FN, DType::kFloat8E4M3FN, "float8e4m3fn", tensor_field::kInt32Data},
    {DataType::kFloat8E4M3FNUZ, DType::kFloat8E4M3FNUZ, "float8e4m3fnuz", tensor_field::kInt32Data},
    {DataType::kFloat8E5M2, DType::kFloat8E5M2, "float8e5m2", tensor_field::kInt32Data},
    {DataType::kFloat8E5M2FNUZ, DType::kFloat8E5M2FNUZ, "float8e5m2fnuz", tensor_field::kInt32Data},
    {DataType::kUInt4, DType::kUInt4, "uint4", tensor_field::kInt32Data},
    {DataType::kInt4, DType::kInt4, "int4", tensor_field::kInt32Data},
    {DataType::kFloat4E2M1, DType::kFloat4E2M1, "float4e2m1", tensor_field::kInt32Data},
    {DataType::kFloat8E8M0, DType::kFloat8E8M0, "float8e8m0", tensor_field::kInt32Data},
    {DataType::kUInt2, DType::kUInt2, "uint2", tensor_field::kInt32Data},
    {DataType::kInt2, DType::kInt2, "int2", tensor_field::kInt32Data},
};

const TypeRow* find_type(DataType type) {
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeRow& r) { return r.type == type; });
  return row == std::end(kTypes) ? nullptr : row;
}

template <typename T>
bool store_as(int64_t value, char* to) {
  if (value < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
      value > static_cast<int64_t>(std::numeric_limits<T>::max())) {
    return false;
  }
  const T narrow = static_cast<T>(value);
  std::memcpy(to, &narrow, sizeof narrow);
  return true;
}

// False when the value is out of the type's range.
bool store(DType dtype, int64_t value, char* to) {
  switch (dtype) {
    case DType::kInt8:
      return store_as<int8_t>(value, to);
    case DType::kInt16:
      return store_as<int16_t>(value, to);
    case DType::kInt32:
      return store_as<int32_t>(value, to);
    case DType::kUInt8:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0:
      return store_as<uint8_t>(value, to);  // float8: their bits
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return store_as<uint16_t>(value, to);  // half types: their bits
    case DType::kUInt32:
      return store_as<uint32_t>(value, to);
    case DType::kBool:
      return store_as<uint8_t>(value != 0, to);
    default:
      std::memcpy(to, &value, sizeof value);
      return true;
  }
}

// Elements of less than 8 bits stand several to a byte in files, the first one in the low bits.
bool is_packed(DType dtype) { return is_narrow(dtype) && narrow_bits(dtype) < 8; }

// Bytes of `count` elements in a file.
size_t file_bytes(DType dtype, int64_t count) {
  const auto elements = static_cast<size_t>(count);
  if (!is_packed(dtype)) return elements * dtype_bytes(dtype);
  const auto per_byte = static_cast<size_t>(8 / narrow_bits(dtype));
  return (elements + per_byte - 1) / per_byte;
}

Tensor unpacked(DType dtype, const Shape& shape, std::string_view bytes) {
  Tensor tensor(dtype, shape);
  auto* to = static_cast<uint8_t*>(tensor.mutable_data());
  const int bits = narrow_bits(dtype);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(i * bits / 8)]);
    to[i] = static_cast<uint8_t>(byte >> (i * bits % 8)) & ((1 << bits) - 1);
  }
  return tensor;
}

}  // namespace

struct TensorReader::Parts {
  std::string_view message, name;
  Shape dims;
  const TypeRow* type = nullptr;
  std::optional<std::string_view> raw;
  std::vector<std::pair<std::string_view, std::string_view>> external;
  int64_t location = 0;
  int64_t count = 0;
  size_t bytes = 0;

  std::string what() const { return fmt::format("tensor \"{}\"", name); }
};

DType element_type(const Source& source, DataType type, std::string_view what, const char* at) {
  const TypeRow* row = find_type(type);
  if (row == nullptr) {
    source.fail(at, "{}: unknown element type {}", what, static_cast<int64_t>(type));
  }
  if (type == DataType::kString) {
    ir::throw_not_straight("{}: {}: string tensors are not supported", source.name, what);
  }
  if (row->dtype == DType::kUndefined) {
    throw_unsupported("{}: {}: {} tensors are not supported", source.name, what, row->name);
  }
  return row->dtype;
}

DType known_type(DataType type) {
  const TypeRow* row = find_type(type);
  return row == nullptr || type == DataType::kString ? DType::kUndefined : row->dtype;
}

bool is_strings(const Source& source, std::string_view message) {
  bool found = false;
  Fields fields(source, message, "tensor");
  while (fields.next()) {
    if (fields.tag() == tensor_field::kDataType) {
      found = fields.integer() == static_cast<int64_t>(DataType::kString);
    } else {
      fields.skip();
    }
  }
  return found;
}

DataType data_type(DType dtype) {
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeRow& r) { return r.dtype == dtype; });
  STRETTO_CHECK(row != std::end(kTypes) && dtype != DType::kUndefined, "no number for {}",
                dtype_name(dtype));
  return row->type;
}

TensorReader::TensorReader(const Source& source, std::string folder,
                           std::shared_ptr<const void> owner, std::span<const ExternalData> given)
    : source_(source), folder_(std::move(folder)), owner_(std::move(owner)) {
  for (const ExternalData& data : given) {
    auto& places = given_[data.location];
    uint64_t offset = data.offset;
    for (std::string_view piece : data.bytes.views()) {
      places.emplace(offset, piece);
      offset += piece.size();
    }
  }
}

TensorReader::Parts TensorReader::parts_of(std::string_view message) {
  Parts parts{.message = message};
  int64_t type = 0;
  bool segment = false;
  Fields fields(source_, message, "tensor");
  while (fields.next()) {
    switch (fields.tag()) {
      case tensor_field::kName:
        parts.name = fields.text();
        break;
      case tensor_field::kDims:
        fields.integers(parts.dims);
        break;
      case tensor_field::kDataType:
        type = fields.integer();
        break;
      case tensor_field::kRawData:
        parts.raw = fields.bytes();
        break;
      case tensor_field::kDataLocation:
        parts.location = fields.integer();
        break;
      case tensor_field::kSegment:
        segment = true;
        fields.skip();
        break;
      case tensor_field::kExternalData: {
        auto& entry = parts.external.emplace_back();
        Fields pair(source_, fields.bytes(), "external data");
        while (pair.next()) {
          if (pair.tag() == entry_field::kKey) {
            entry.first = pair.text();
          } else if (pair.tag() == entry_field::kValue) {
            entry.second = pair.text();
          } else {
            pair.skip();
          }
        }
        break;
      }
      default:
        fields.skip();
    }
  }
  const DType dtype =
      element_type(source_, static_cast<DataType>(type), parts.what(), message.data());
  parts.type = find_type(static_cast<DataType>(type));
  if (segment) throw_unsupported("{}: {} is split in segments", source_.name, parts.what());
  if (parts.dims.size() > ir::kMaxRank) {
    source_.fail(message.data(), "{} has {} dimensions, the limit is {}", parts.what(),
                 parts.dims.size(), ir::kMaxRank);
  }
  try {
    parts.count = element_count(parts.dims);
  } catch (const InvalidArgument& error) {
    source_.fail(message.data(), "{}: {}", parts.what(), error.what());
  }
  parts.bytes = file_bytes(dtype, parts.count);
  return parts;
}

Tensor TensorReader::read(std::string_view message) {
  if (const auto at = known_.find(message.data()); at != known_.end()) return at->second;
  Tensor tensor = make(parts_of(message));
  known_.emplace(message.data(), tensor);
  return tensor;
}

std::optional<TensorReader::ExternalPlace> TensorReader::external_place(std::string_view message) {
  int64_t location = 0;
  Fields fields(source_, message, "tensor");
  while (fields.next()) {
    if (fields.tag() == tensor_field::kDataLocation) {
      location = fields.integer();
    } else {
      fields.skip();
    }
  }
  if (location != kExternalLocation) return std::nullopt;
  return find_external(parts_of(message));
}

AnyValue TensorReader::read_value(std::string_view message) {
  Strings strings;
  bool is_text = false;
  size_t bytes = 0;
  Fields fields(source_, message, "tensor");
  while (fields.next()) {
    if (fields.tag() == tensor_field::kDataType) {
      is_text = fields.integer() == static_cast<int64_t>(DataType::kString);
    } else if (fields.tag() == tensor_field::kDims) {
      fields.integers(strings.shape);
    } else if (fields.tag() == tensor_field::kStringData) {
      strings.values.emplace_back(fields.bytes());
      bytes += strings.values.back().size();
    } else {
      fields.skip();
    }
  }
  if (!is_text) return read(message);
  int64_t count = -1;
  try {
    if (strings.shape.size() <= ir::kMaxRank) count = element_count(strings.shape);
  } catch (const InvalidArgument&) {
  }
  if (count != static_cast<int64_t>(strings.values.size())) {
    source_.fail(message.data(), "a tensor of strings: its shape does not fit its {} strings",
                 strings.values.size());
  }
  return strings;
}

Tensor TensorReader::make(const Parts& parts) {
  if (parts.location == kExternalLocation) {
    const ExternalPlace place = find_external(parts);
    return from_raw(parts, place.bytes, place.file ? place.file : owner_);
  }
  if (parts.raw && !(parts.raw->empty() && parts.count > 0)) {
    return from_raw(parts, *parts.raw, owner_);
  }
  return from_typed(parts);
}

Tensor TensorReader::from_raw(const Parts& parts, std::string_view raw,
                              const std::shared_ptr<const void>& owner) {
  if (raw.size() != parts.bytes) {
    source_.fail(parts.message.data(), "{}: {} {} needs {} bytes, got {}", parts.what(),
                 parts.type->name, shape_text(parts.dims), parts.bytes, raw.size());
  }
  const DType dtype = parts.type->dtype;
  if (is_packed(dtype)) return unpacked(dtype, parts.dims, raw);
  const bool aligned = reinterpret_cast<uintptr_t>(raw.data()) % dtype_bytes(dtype) == 0;
  // A bool is 0 or 1 everywhere else, which no file promises.
  if (owner != nullptr && aligned && dtype != DType::kBool) {
    return Tensor(dtype, parts.dims, raw.data(), owner);
  }
  Tensor tensor(dtype, parts.dims);
  auto* to = static_cast<char*>(tensor.mutable_data());
  if (dtype == DType::kBool) {
    std::transform(raw.begin(), raw.end(), to, [](char c) { return static_cast<char>(c != 0); });
  } else {
    std::copy(raw.begin(), raw.end(), to);
  }
  return tensor;
}

Tensor TensorReader::from_typed(const Parts& parts) {
  const DType dtype = parts.type->dtype;
  const size_t width = dtype_bytes(dtype);
  std::vector<char> data;
  std::vector<int64_t> integers;
  Fields fields(source_, parts.message, "tensor");
  while (fields.next()) {
    if (fields.tag() != parts.type->field) {
      fields.skip();
    } else if (dtype == DType::kFloat32 || dtype == DType::kFloat64) {
      fields.fixed(width, data);
    } else {
      fields.integers(integers);
    }
  }
  if (is_packed(dtype)) {
    std::string bytes;
    for (int64_t packed : integers) bytes += static_cast<char>(packed);
    if (bytes.size() != parts.bytes) {
      source_.fail(parts.message.data(), "{}: {} {} needs {} packed values, got {}", parts.what(),
                   parts.type->name, shape_text(parts.dims), parts.bytes, bytes.size());
    }
    return unpacked(dtype, parts.dims, bytes);
  }
  const size_t given = is_float(dtype) && !data.empty() ? data.size() / width : integers.size();
  if (given != static_cast<size_t>(parts.count)) {
    source_.fail(parts.message.data(), "{}: {} {} needs {} values, got {}", parts.what(),
                 parts.type->name, shape_text(parts.dims), parts.count, given);
  }
  Tensor tensor(dtype, parts.dims);
  auto* to = static_cast<char*>(tensor.mutable_data());
  std::copy(data.begin(), data.end(), to);
  for (size_t i = 0; i < integers.size(); ++i) {
    if (!store(dtype, integers[i], to + i * width)) {
      source_.fail(parts.message.data(), "{}: {} is no {} value", parts.what(), integers[i],
                   parts.type->name);
    }
  }
  return tensor;
}

TensorReader::ExternalPlace TensorReader::find_external(const Parts& parts) {
  ExternalPlace place;
  uint64_t length = parts.bytes;
  for (const auto& [key, value] : parts.external) {
    if (key == "location") place.location = value;
    if (key != "offset" && key != "length") continue;
    uint64_t& number = key == "offset" ? place.offset : length;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size()) {
      source_.fail(parts.message.data(), "{}: external {} is '{}', expected a number of bytes",
                   parts.what(), key, value);
    }
  }
  if (length != parts.bytes) {
    source_.fail(parts.message.data(), "{}: {} {} needs {} bytes, its external data has {}",
                 parts.what(), parts.type->name, shape_text(parts.dims), parts.bytes, length);
  }
  if (!given_.empty()) {
    place.bytes = given_data(parts, place, length);
    return place;
  }
  place.file = open_external(parts, place.location);
  const auto bytes = place.file->bytes();
  if (place.offset > bytes.size() || length > bytes.size() - place.offset) {
    throw FormatError(place.file->path(),
                      static_cast<int64_t>(std::min<uint64_t>(place.offset, bytes.size())),
                      fmt::format("{} of {} needs {} bytes at {}, the file has {}", parts.what(),
                                  source_.name, length, place.offset, bytes.size()));
  }
  place.bytes = {reinterpret_cast<const char*>(bytes.data()) + place.offset, length};
  return place;
}

std::string_view TensorReader::given_data(const Parts& parts, const ExternalPlace& place,
                                          uint64_t length) {
  if (length == 0) return {};
  const auto file = given_.find(place.location);
  if (file != given_.end()) {
    auto at = file->second.upper_bound(place.offset);
    if (at != file->second.begin()) {
      const auto& [offset, bytes] = *--at;
      const uint64_t begin = place.offset - offset;
      if (begin <= bytes.size() && length <= bytes.size() - begin) {
        return bytes.substr(begin, length);
      }
    }
  }
  source_.fail(parts.message.data(),
               "{}: {} bytes at {} of '{}' are not in the data that came with the model",
               parts.what(), length, place.offset, place.location);
}

std::vector<std::string> TensorReader::external_files() const {
  std::vector<std::string> paths;
  for (const auto& [location, file] : files_) paths.push_back(file->path());
  return paths;
}

std::shared_ptr<const MappedFile> TensorReader::open_external(const Parts& parts,
                                                              std::string_view location) {
  const auto refuse = [&](std::string_view why) {
    source_.fail(parts.message.data(), "{}: external data in '{}' {}", parts.what(), location, why);
  };
  if (folder_.empty()) refuse("cannot be read: the model was given as bytes, without a folder");
  if (location.empty()) refuse("names no file");
  const fs::path relative(location);
  if (relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), "..") != relative.end()) {
    refuse("would lie outside the model's folder");
  }
  const std::string key(location);
  if (const auto at = files_.find(key); at != files_.end()) return at->second;
  std::error_code error;
  const fs::path root = fs::canonical(folder_, error);
  if (error) refuse("cannot be found: there is no folder " + folder_);
  const fs::path path = fs::canonical(root / relative, error);
  if (error) refuse("cannot be found in " + root.string());
  const fs::path inside = path.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..") {
    refuse("is a link to a file outside the model's folder; put the file itself there");
  }
  if (!fs::is_regular_file(path, error)) refuse("is no regular file");
  return files_.emplace(key, MappedFile::open(path.string())).first->second;
}

}  // namespace stretto::onnx
