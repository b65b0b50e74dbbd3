// Sparse tensors, which become dense ones: no kernel makes use of their zeros.
#include <algorithm>
#include <cstring>

#include "stretto/import/onnx/tensor.h"
#include "stretto/ir/limits.h"

namespace stretto::onnx {
namespace {

// A few bytes may describe a tensor that fills any memory. A tensor may take this many times its
// bytes in the file (models keep one weight in ten to one in a hundred), and all of a model
// together so many bytes more.
constexpr int64_t kExpansion = 256;
constexpr int64_t kMaxExcessBytes = int64_t{256} << 20;

struct Sparse {
  std::string_view values, indices;
  Shape dims;
};

Sparse read_parts(const Source& source, std::string_view message) {
  Sparse sparse;
  Fields fields(source, message, "sparse tensor");
  while (fields.next()) {
    switch (fields.tag()) {
      case sparse_tensor_field::kValues:
        sparse.values = fields.bytes();
        break;
      case sparse_tensor_field::kIndices:
        sparse.indices = fields.bytes();
        break;
      case sparse_tensor_field::kDims:
        fields.integers(sparse.dims);
        break;
      default:
        fields.skip();
    }
  }
  if (sparse.values.data() == nullptr) source.fail(message.data(), "a sparse tensor has no values");
  return sparse;
}

// Where an entry stands in the dense tensor; -1 where it lies outside.
int64_t place_of(std::span<const int64_t> index, const Shape& dims) {
  int64_t place = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (index[i] < 0 || index[i] >= dims[i]) return -1;
    place = place * dims[i] + index[i];
  }
  return place;
}

}  // namespace

Tensor TensorReader::read_sparse(std::string_view message) {
  if (const auto at = known_.find(message.data()); at != known_.end()) return at->second;
  const Sparse sparse = read_parts(source_, message);
  const Tensor values = read(sparse.values);
  const Shape& dims = sparse.dims;
  const auto fail = [&](const std::string& problem) {
    source_.fail(message.data(), "a sparse tensor of {}: {}", shape_text(dims), problem);
  };
  if (dims.size() > ir::kMaxRank) {
    source_.fail(message.data(), "a sparse tensor has {} dimensions, the limit is {}", dims.size(),
                 ir::kMaxRank);
  }
  int64_t count = 0;
  try {
    count = element_count(dims);
  } catch (const InvalidArgument& error) {
    fail(error.what());
  }
  if (values.shape().size() != 1) {
    fail(fmt::format("its values are {}, expected one dimension", shape_text(values.shape())));
  }
  const int64_t given = values.count();
  const bool has_indices = sparse.indices.data() != nullptr;
  if (!has_indices && given > 0) fail("it has no indices");
  const Tensor indices = has_indices ? read(sparse.indices) : Tensor::int64s({});
  const auto rank = static_cast<int64_t>(dims.size());
  const bool is_linear = indices.shape() == Shape{given};
  if (indices.dtype() != DType::kInt64 || !(is_linear || indices.shape() == Shape{given, rank})) {
    fail(fmt::format("its indices are {} {}, expected int64 {} or {}", dtype_name(indices.dtype()),
                     shape_text(indices.shape()), shape_text(Shape{given}),
                     shape_text(Shape{given, rank})));
  }
  const auto width = static_cast<int64_t>(dtype_bytes(values.dtype()));
  const int64_t in_file = given * width + indices.count() * static_cast<int64_t>(sizeof(int64_t));
  sparse_excess_bytes_ += std::max<int64_t>(count * width - kExpansion * in_file, 0);
  if (sparse_excess_bytes_ > kMaxExcessBytes) {
    throw_unsupported(
        "{}: a sparse tensor of {} has {} values: sparse tensors that are almost empty may take {} "
        "MiB of memory together; store it as a dense tensor",
        source_.name, shape_text(dims), given, kMaxExcessBytes >> 20);
  }
  Tensor dense(values.dtype(), dims);
  auto* to = static_cast<char*>(dense.mutable_data());
  std::memset(to, 0, static_cast<size_t>(count * width));
  const auto* from = static_cast<const char*>(values.data());
  const std::span<const int64_t> list = indices.values<int64_t>();
  for (int64_t i = 0; i < given; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t place =
        is_linear ? list[at] : place_of(list.subspan(at * dims.size(), dims.size()), dims);
    if (place < 0 || place >= count) fail(fmt::format("index {} lies outside", i));
    std::memcpy(to + place * width, from + i * width, static_cast<size_t>(width));
  }
  known_.emplace(message.data(), dense);
  return dense;
}

}  // namespace stretto::onnx
