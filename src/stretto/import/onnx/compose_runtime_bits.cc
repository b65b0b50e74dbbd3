// Operators of ONNX Runtime (domain com.microsoft) on weights of 2, 4 and 8 bits that lie packed in
// bytes. They become tensors of that many bits and DequantizeLinear by blocks.
#include <algorithm>
#include <bit>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose_quantized.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

constexpr int64_t kDefaultBlock = 128;  // of GatherBlockQuantized

// With and without a sign; kUndefined where there is no type of so many bits.
DType type_of_bits(int64_t bits, bool is_signed) {
  switch (bits) {
    case 2:
      return is_signed ? DType::kInt2 : DType::kUInt2;
    case 4:
      return is_signed ? DType::kInt4 : DType::kUInt4;
    case 8:
      return is_signed ? DType::kInt8 : DType::kUInt8;
    default:
      return DType::kUndefined;
  }
}

// The first `shape.back()` numbers of each row of bytes, low bits first; rows are all but the last
// axis. `centred`: less half of their range, which is ONNX Runtime's zero point where none is
// given.
Tensor unpacked(const Tensor& packed, const Shape& shape, int64_t bits, bool centred) {
  Tensor out(type_of_bits(bits, centred), shape);
  const int64_t columns = shape.back();
  if (out.count() == 0) return out;
  const int64_t rows = out.count() / columns, stride = packed.count() / rows;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  // In two's complement, less half of the range is the top bit the other way round.
  const auto flip = static_cast<uint8_t>(centred ? 1 << (bits - 1) : 0);
  const std::span<const uint8_t> from = packed.values<uint8_t>();
  auto* to = static_cast<uint8_t*>(out.mutable_data());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      const uint8_t byte = from[static_cast<size_t>(row * stride + i * bits / 8)];
      *to++ = static_cast<uint8_t>((byte >> (i * bits % 8)) & mask) ^ flip;
    }
  }
  return out;
}

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A weight of bytes, which has to be known to be unpacked.
const Tensor& known_bytes(const PendingNode& node, size_t i, std::string_view what) {
  const Tensor* tensor = node.constant(i);
  if (tensor == nullptr) {
    node.not_straight(fmt::format("{} must be known when the model is optimised", what));
  }
  check(node, tensor->dtype() == DType::kUInt8,
        fmt::format("{} must be of uint8, got {}", what, dtype_name(tensor->dtype())));
  return *tensor;
}

int64_t bits_of(const PendingNode& node) {
  const int64_t bits = node.attributes.integer("bits", 4);
  if (type_of_bits(bits, false) == DType::kUndefined) {
    node.unsupported(fmt::format("weights of {} bits; 2, 4 and 8 are supported", bits));
  }
  return bits;
}

int64_t block_of(const PendingNode& node, int64_t fallback) {
  const int64_t block = node.attributes.integer("block_size", fallback);
  check(node, block >= 16 && std::has_single_bit(static_cast<uint64_t>(block)),
        fmt::format("block_size must be a power of two and at least 16, got {}", block));
  return block;
}

ir::Attributes blockwise(int64_t axis, int64_t block) {
  ir::Attributes attributes = attribute("axis", axis);
  attributes.set("block_size", block);
  return attributes;
}

// What MatMulNBits says of its weight [n, k].
struct BlockedWeight {
  enum Input : size_t { kA, kB, kScales, kZeros, kGroups, kBias };
  int64_t n, k, bits, block, blocks;
};

BlockedWeight blocked_weight(const PendingNode& node) {
  BlockedWeight w{.n = node.attributes.integer("N", 0),
                  .k = node.attributes.integer("K", 0),
                  .bits = bits_of(node),
                  .block = block_of(node, 0)};
  check(node, w.n > 0 && w.k > 0, "attributes N and K must be given and positive");
  if (node.attributes.integer("weight_prepacked", 0) != 0) {
    node.unsupported("a weight that is packed for one processor (weight_prepacked)");
  }
  w.blocks = divided_up(w.k, w.block);
  const auto expect = [&](size_t i, std::string_view name, const Shape& expected) {
    if (!node.has_input(i)) return;
    // Old writers left out that these have axes.
    check(node, element_count(*node.shape(i)) == element_count(expected),
          fmt::format("expected {} of shape {}, got {}", name, shape_text(expected),
                      shape_text(*node.shape(i))));
  };
  expect(BlockedWeight::kB, "B", {w.n, w.blocks, w.block * w.bits / 8});
  expect(BlockedWeight::kScales, "scales", {w.n, w.blocks});
  const bool packed = node.dtype(BlockedWeight::kZeros) == DType::kUInt8;
  expect(BlockedWeight::kZeros, "zero_points",
         {w.n, packed ? divided_up(w.blocks * w.bits, 8) : w.blocks});
  expect(BlockedWeight::kBias, "bias", {w.n});
  return w;
}

// The forms that DequantizeLinear does not have: zero points that are floats, and a list of the
// block of each row. They are rare, and are floats from the start.
Tensor floats_of(const PendingNode& node, const BlockedWeight& w) {
  const Tensor* scales = node.constant(BlockedWeight::kScales);
  const bool has_zeros = node.has_input(BlockedWeight::kZeros);
  const Tensor* given = node.constant(BlockedWeight::kZeros);
  if (scales == nullptr || (has_zeros && given == nullptr)) {
    node.not_straight("scales and zero_points must be known when the model is optimised");
  }
  std::vector<int64_t> groups(static_cast<size_t>(w.k));
  for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int64_t>(i) / w.block;
  if (node.has_input(BlockedWeight::kGroups)) {
    const std::vector<int64_t> listed = known_integers(node, BlockedWeight::kGroups, "g_idx");
    check(node, listed.size() >= groups.size(),
          fmt::format("expected {} numbers in g_idx, got {}", w.k, listed.size()));
    std::copy_n(listed.begin(), groups.size(), groups.begin());
    for (int64_t group : groups) {
      check(node, group >= 0 && group < w.blocks,
            fmt::format("block {} in g_idx, of {}", group, w.blocks));
    }
  }
  const std::vector<double> scale = scales->as_doubles();
  std::vector<double> zero(scale.size(), static_cast<double>(1 << (w.bits - 1)));
  if (has_zeros) {
    zero = (given->dtype() == DType::kUInt8 ? unpacked(*given, {w.n, w.blocks}, w.bits, false)
                                            : *given)
               .as_doubles();
  }
  const Tensor codes = unpacked(*node.constant(BlockedWeight::kB), {w.n, w.k}, w.bits, false);
  const auto* code = static_cast<const uint8_t*>(codes.data());
  Tensor out(DType::kFloat32, {w.n, w.k});
  const auto to = out.mutable_values<float>();
  for (int64_t i = 0; i < codes.count(); ++i) {
    const auto at = static_cast<size_t>(i / w.k * w.blocks + groups[static_cast<size_t>(i % w.k)]);
    to[static_cast<size_t>(i)] = static_cast<float>((code[i] - zero[at]) * scale[at]);
  }
  return out.converted(scales->dtype());
}

}  // namespace

void compose_matmul_bits(PendingNode& node) {
  using Weight = BlockedWeight;
  expect_inputs(node, 3);
  const BlockedWeight w = blocked_weight(node);
  const Tensor& packed = known_bytes(node, Weight::kB, "B");
  Parts parts(node);
  const Shape a = parts.shape(node.inputs[Weight::kA]);
  check(node, !a.empty() && a.back() == w.k,
        fmt::format("expected {} columns of A (attribute K), got shape {}", w.k, shape_text(a)));
  const bool has_zeros = node.has_input(Weight::kZeros);
  const bool packed_zeros = node.dtype(Weight::kZeros) == DType::kUInt8;
  Id weight;
  if (node.has_input(Weight::kGroups) || (has_zeros && !packed_zeros)) {
    weight = parts.constant(floats_of(node, w));
  } else {
    std::vector<Id> inputs = {parts.constant(unpacked(packed, {w.n, w.k}, w.bits, !has_zeros)),
                              parts.reshape(node.inputs[Weight::kScales], {w.n, w.blocks})};
    if (has_zeros) {
      const Tensor& zeros = known_bytes(node, Weight::kZeros, "zero_points");
      inputs.push_back(parts.constant(unpacked(zeros, {w.n, w.blocks}, w.bits, false)));
    }
    weight = parts.op("DequantizeLinear", inputs, blockwise(1, w.block));
  }
  Id y = parts.matmul(node.inputs[Weight::kA], parts.transpose(weight, {1, 0}));
  if (node.has_input(Weight::kBias)) {
    y = parts.add(y, parts.reshape(node.inputs[Weight::kBias], {w.n}));
  }
  node.results = {y};
}

// Rows are gathered as they are stored, so that a large table stays in few bits.
void compose_gather_block_quantized(PendingNode& node) {
  enum Input : size_t { kData, kIndices, kScales, kZeros };
  expect_inputs(node, 3);
  Parts parts(node);
  Quantized table{node.inputs[kData], node.inputs[kScales], input_or_none(node, kZeros)};
  Shape shape = parts.shape(table.values);
  const auto rank = static_cast<int64_t>(shape.size());
  const auto axis_of = [&](std::string_view name, int64_t fallback) {
    const int64_t axis = node.attributes.integer(name, fallback);
    check(node, axis >= -rank && axis < rank, fmt::format("{} {} of rank {}", name, axis, rank));
    return axis < 0 ? axis + rank : axis;
  };
  const int64_t gathered = axis_of("gather_axis", 0), axis = axis_of("quantize_axis", 1);
  const int64_t block = block_of(node, kDefaultBlock);
  const DType dtype = node.dtype(kData);
  if (dtype == DType::kUInt8) {
    const int64_t bits = bits_of(node);
    check(node, gathered == 0 && (bits == 8 || axis != gathered),
          "of data of uint8, gather_axis must be 0 and quantize_axis another");
    const bool centred = table.zero == ir::kNone;
    shape.back() = shape.back() * 8 / bits;
    table.values = parts.constant(unpacked(known_bytes(node, kData, "data"), shape, bits, centred));
    if (!centred) {
      Shape zeros = parts.shape(table.scale);
      const Tensor& given = known_bytes(node, kZeros, "zero_points");
      check(node,
            !zeros.empty() && given.rank() == static_cast<int64_t>(zeros.size()) &&
                given.shape().back() == divided_up(zeros.back() * bits, 8) &&
                std::equal(zeros.begin(), zeros.end() - 1, given.shape().begin()),
            fmt::format("zero_points of shape {} do not fit scales of shape {}",
                        shape_text(given.shape()), shape_text(zeros)));
      table.zero = parts.constant(unpacked(given, zeros, bits, false));
    }
  } else if (dtype != DType::kInt4 && dtype != DType::kUInt4) {
    node.unsupported(
        fmt::format("data of {}; uint8, int4 and uint4 are supported", dtype_name(dtype)));
  }
  Shape scales = shape;
  scales[static_cast<size_t>(axis)] = divided_up(scales[static_cast<size_t>(axis)], block);
  check(node, parts.shape(table.scale) == scales,
        fmt::format("expected scales of shape {}, got {}", shape_text(scales),
                    shape_text(parts.shape(table.scale))));
  const auto dequantized = [&](const Quantized& q, int64_t along) {
    std::vector<Id> inputs = {q.values, q.scale};
    if (q.zero != ir::kNone) inputs.push_back(q.zero);
    return parts.op("DequantizeLinear", inputs, blockwise(along, block));
  };
  // Rows of 4-bit values are no whole bytes in general: they are gathered in a byte each.
  const auto gather = [&](Id x) {
    if (x == ir::kNone) return x;
    if (parts.dtype(x) == DType::kInt4) x = parts.cast(x, DType::kInt8);
    if (parts.dtype(x) == DType::kUInt4) x = parts.cast(x, DType::kUInt8);
    return parts.op("Gather", {x, node.inputs[kIndices]}, attribute("axis", gathered));
  };
  if (axis == gathered) {
    node.results = {gather(dequantized(table, axis))};
    return;
  }
  const auto more = static_cast<int64_t>(parts.shape(node.inputs[kIndices]).size()) - 1;
  node.results = {dequantized({gather(table.values), gather(table.scale), gather(table.zero)},
                              axis > gathered ? axis + more : axis)};
}

}  // namespace stretto::onnx
