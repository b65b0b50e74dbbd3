#include "stretto/runtime/direct/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "stretto/base/error.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/tensor.h"

namespace stretto::runtime::direct {
namespace {

// Inputs whose values decide shapes, or that kernels are made for: by operator, all that are named.
struct ValueRow {
  std::string_view op, inputs;  // separated by a space; "*": all
};
constexpr ValueRow kValues[] = {
    {"AffineGrid", "size"},
    {"BlackmanWindow", "size"},
    {"CenterCropPad", "shape"},
    {"Col2Im", "image_shape block_shape"},
    {"Compress", "condition"},
    {"ConstantOfShape", "input"},
    {"CumProd", "axis"},
    {"CumSum", "axis"},
    {"DFT", "dft_length axis"},
    {"Dropout", "ratio training_mode"},
    {"Expand", "shape"},
    {"HammingWindow", "size"},
    {"HannWindow", "size"},
    {"MaxUnpool", "output_shape"},
    {"MelWeightMatrix", "*"},
    {"NonMaxSuppression", "*"},
    {"NonZero", "*"},
    {"OneHot", "depth"},
    {"Pad", "pads axes"},
    {"Range", "*"},
    {"ReduceL1", "axes"},
    {"ReduceL2", "axes"},
    {"ReduceLogSum", "axes"},
    {"ReduceLogSumExp", "axes"},
    {"ReduceMax", "axes"},
    {"ReduceMean", "axes"},
    {"ReduceMin", "axes"},
    {"ReduceProd", "axes"},
    {"ReduceSum", "axes"},
    {"ReduceSumSquare", "axes"},
    {"Reshape", "shape"},
    {"Resize", "roi scales sizes"},
    {"STFT", "frame_step frame_length"},
    {"Slice", "starts ends axes steps"},
    {"Split", "split"},
    {"Squeeze", "axes"},
    {"Tile", "repeats"},
    {"TopK", "K"},
    {"Trilu", "k"},
    {"Unique", "*"},
    {"Unsqueeze", "axes"},
};

// Inputs that may be any array, of which kernels want to know the numbers nevertheless.
constexpr ValueRow kKnownNumbers[] = {
    {"Clip", "min max"},
    {"Pad", "constant_value"},
};

uint64_t inputs_in(std::span<const ValueRow> rows, const onnx::Signature& signature) {
  uint64_t mask = 0;
  for (const ValueRow& row : rows) {
    if (row.op != signature.op) continue;
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      const std::string padded = fmt::format(" {} ", row.inputs);
      const bool named =
          padded.find(fmt::format(" {} ", signature.inputs[i].name)) != std::string::npos;
      if (named || row.inputs == "*") mask |= uint64_t{1} << i;
    }
  }
  return mask;
}

// How many letters of two names have to be changed, added or left out to make one the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (std::tolower(a[i - 1]) != std::tolower(b[j - 1]));
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::span<const DirectOperator> direct_operators() {
  static const std::vector<DirectOperator> all = [] {
    std::vector<DirectOperator> rows;
    for (const onnx::Signature& s : onnx::signatures())
      rows.push_back({&s, inputs_in(kValues, s), inputs_in(kKnownNumbers, s)});
    return rows;
  }();
  return all;
}

const DirectOperator& direct_operator(std::string_view op) {
  if (const onnx::Signature* signature = onnx::find_signature(op)) {
    return direct_operators()[static_cast<size_t>(signature - onnx::signatures().data())];
  }
  std::vector<std::string_view> like;
  for (const onnx::Signature& s : onnx::signatures()) {
    if (distance(op, s.op) <= std::max<size_t>(1, op.size() / 4)) like.push_back(s.op);
  }
  throw_invalid("ops: there is no operator {}{}", op,
                like.empty() ? "; `stretto operators` lists ONNX's"
                             : fmt::format("; did you mean {}?", fmt::join(like, " or ")));
}

void Key::value(const Tensor& tensor) {
  add('t');
  add(Argument{.kind = ArgumentKind::kValue,
               .dtype = tensor.dtype(),
               .shape = tensor.shape(),
               .data = tensor.data()});
}

void Key::own_values(std::span<Argument> arguments) const {
  size_t at = sizeof(const DirectOperator*) + 2 * sizeof(int16_t);
  for (Argument& a : arguments) {
    at += 1;
    if (a.kind == ArgumentKind::kAbsent) continue;
    if (a.kind == ArgumentKind::kConstant) {
      at += sizeof(uint64_t);
      continue;
    }
    at += 2 + a.shape.size_bytes();
    if (a.kind != ArgumentKind::kValue) continue;
    const auto bytes = static_cast<size_t>(a.bytes());
    STRETTO_CHECK(at + bytes <= size_, "the key does not hold the value of an argument");
    a.data = data() + at;
    at += bytes;
  }
}

void Key::grow(size_t more) {
  std::vector<char> larger(std::max(2 * capacity_, size_ + more));
  std::memcpy(larger.data(), data(), size_);
  long_ = std::move(larger);
  capacity_ = long_.size();
}

void check_attribute(const DirectOperator& op, std::string_view name, int64_t opset) {
  const onnx::Signature& signature = *op.signature;
  const int index = onnx::find_attribute(signature, name);
  if (index >= 0 && !signature.attributes[index].kind) {
    throw_unsupported("{}: attribute {} is a graph, which only models can have", signature.op,
                      name);
  }
  if (index >= 0 || (opset != 0 && opset < onnx::kNewestOpset)) return;
  std::vector<std::string> has;
  for (const onnx::SignatureAttribute& a : signature.attributes) has.push_back(a.name);
  throw_invalid("{} has no attribute {}; it has {}", signature.op, name,
                has.empty() ? "none" : fmt::format("{}", fmt::join(has, ", ")));
}

void add_attributes(Key& key, const DirectOperator& op, const ir::Attributes& attributes,
                    int64_t opset) {
  // Both are ordered by name.
  for (const auto& [name, value] : attributes.all()) {
    check_attribute(op, name, opset);
    const int index = onnx::find_attribute(*op.signature, name);
    if (index >= 0) {
      key.attribute(index);
    } else {
      key.named_attribute(name);
    }
    std::visit([&](const auto& v) { key.value(v); }, value);
  }
}

ir::Attributes with_type_numbers(const ir::Attributes& attributes) {
  ir::Attributes result = attributes;
  for (std::string_view name : onnx::kTypeAttributes) {
    const ir::Attribute* attribute = attributes.find(name);
    if (attribute == nullptr) continue;
    if (const auto* text = std::get_if<std::string>(attribute)) {
      result.set(std::string(name), static_cast<int64_t>(onnx::data_type(parse_dtype(*text))));
    }
  }
  return result;
}

}  // namespace stretto::runtime::direct
