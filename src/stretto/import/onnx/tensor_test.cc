// TensorProtos: every type and way to store it, and sizes that do not fit.
#include "stretto/import/onnx/tensor.h"

#include <gtest/gtest.h>

#include "stretto/import/onnx/test_model.h"

namespace stretto::onnx {
namespace {

using namespace testing;

Tensor read(const std::string& bytes, const std::string& folder = {}) {
  const Source source{"t.onnx", bytes};
  return TensorReader(source, folder, nullptr).read(bytes);
}

std::string problem(const std::string& bytes, const std::string& folder = {}) {
  try {
    read(bytes, folder);
  } catch (const FormatError& error) {
    return error.what();
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Values in the typed field that ONNX gives to `type`, packed or one by one.
template <typename Add>
std::string typed(DataType type, int64_t count, Add&& add) {
  return message([&](auto& w) {
    w.add_int64(tensor_field::kDims, count);
    w.add_int64(tensor_field::kDataType, static_cast<int64_t>(type));
    w.add_string(tensor_field::kName, "w");
    add(w);
  });
}

TEST(OnnxTensor, ReadsTypedFieldsOfEveryType) {
  const std::vector<int64_t> integers = {1, 0, 100};
  const struct {
    DataType type;
    DType dtype;
    uint32_t field;
  } rows[] = {{DataType::kInt8, DType::kInt8, tensor_field::kInt32Data},
              {DataType::kInt16, DType::kInt16, tensor_field::kInt32Data},
              {DataType::kInt32, DType::kInt32, tensor_field::kInt32Data},
              {DataType::kInt64, DType::kInt64, tensor_field::kInt64Data},
              {DataType::kUInt8, DType::kUInt8, tensor_field::kInt32Data},
              {DataType::kUInt16, DType::kUInt16, tensor_field::kInt32Data},
              {DataType::kUInt32, DType::kUInt32, tensor_field::kUInt64Data},
              {DataType::kUInt64, DType::kUInt64, tensor_field::kUInt64Data}};
  for (const auto& row : rows) {
    const std::string packed = typed(row.type, 3, [&](auto& w) {
      w.add_packed_int64(row.field, integers.begin(), integers.end());
    });
    const std::string single = typed(row.type, 3, [&](auto& w) {
      for (int64_t value : integers) w.add_int64(row.field, value);
    });
    for (const std::string& bytes : {packed, single}) {
      const Tensor tensor = read(bytes);
      EXPECT_EQ(tensor.dtype(), row.dtype);
      EXPECT_EQ(tensor.as_int64s(), integers) << dtype_name(row.dtype);
    }
  }
}

TEST(OnnxTensor, ReadsTypedFloats) {
  const std::vector<float> values = {1.5f, -2};
  const Tensor packed = read(typed(DataType::kFloat, 2, [&](auto& w) {
    w.add_packed_float(tensor_field::kFloatData, values.begin(), values.end());
  }));
  EXPECT_EQ(packed.as_doubles(), (std::vector<double>{1.5, -2}));
  const Tensor single = read(typed(DataType::kDouble, 2, [&](auto& w) {
    for (float value : values) w.add_double(tensor_field::kDoubleData, value);
  }));
  EXPECT_EQ(single.dtype(), DType::kFloat64);
  EXPECT_EQ(single.as_doubles(), (std::vector<double>{1.5, -2}));
  // Half types stand as their bits.
  for (const auto& [type, bits] :
       {std::pair{DataType::kFloat16, 0x3e00}, {DataType::kBFloat16, 0x3fc0}}) {
    const Tensor half =
        read(typed(type, 1, [&, b = bits](auto& w) { w.add_int64(tensor_field::kInt32Data, b); }));
    EXPECT_EQ(half.as_doubles(), std::vector<double>{1.5});
  }
}

TEST(OnnxTensor, ReadsRawData) {
  EXPECT_EQ(read(tensor("w", DataType::kInt16, {2, 1}, raw<int16_t>({-3, 4}))).as_int64s(),
            (std::vector<int64_t>{-3, 4}));
  EXPECT_EQ(read(tensor("w", DataType::kFloat, {}, raw<float>({0.25f}))).as_doubles()[0], 0.25);
  EXPECT_EQ(read(tensor("w", DataType::kFloat, {0, 5}, "")).shape(), (Shape{0, 5}));
  // Any byte but 0 is true, and true is stored as 1.
  const Tensor flags = read(tensor("w", DataType::kBool, {3}, std::string("\0\x01\x7f", 3)));
  EXPECT_EQ(static_cast<const uint8_t*>(flags.data())[2], 1);
}

TEST(OnnxTensor, LeavesAlignedDataWhereItIs) {
  const std::string bytes = tensor("w", DataType::kUInt8, {64}, std::string(64, 'a'));
  const Source source{"t.onnx", bytes};
  TensorReader reader(source, {}, std::make_shared<int>(0));
  const Tensor tensor = reader.read(bytes);
  const auto* data = static_cast<const char*>(tensor.data());
  EXPECT_TRUE(data >= bytes.data() && data + 64 <= bytes.data() + bytes.size());
  EXPECT_EQ(reader.read(bytes).data(), tensor.data());
}

TEST(OnnxTensor, CopiesWhatIsNotAligned) {
  // Somewhere among four neighbouring offsets the floats are aligned, and in the others they are
  // not.
  const std::string body = floats("w", {2}, {1, 2});
  for (size_t shift = 0; shift < 4; ++shift) {
    const std::string bytes = std::string(shift, ' ') + body;
    const Source source{"t.onnx", bytes};
    const Tensor tensor = TensorReader(source, {}, std::make_shared<int>(0))
                              .read(std::string_view(bytes).substr(shift));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 4, 0u);
    EXPECT_EQ(tensor.as_doubles(), (std::vector<double>{1, 2}));
  }
}

TEST(OnnxTensor, RefusesSizesThatDoNotFit) {
  EXPECT_EQ(problem(tensor("w", DataType::kFloat, {3}, raw<float>({1, 2}))),
            "t.onnx (byte 0): tensor \"w\": float 3 needs 12 bytes, got 8");
  EXPECT_TRUE(contains(problem(tensor("w", DataType::kFloat, {2}, "")), "needs 2 values, got 0"));
  EXPECT_TRUE(
      contains(problem(tensor("w", DataType::kFloat, {-1}, "")), "dimension -1 is negative"));
  const int64_t big = int64_t{1} << 40;
  EXPECT_TRUE(contains(problem(tensor("w", DataType::kFloat, {big, big}, "")), "2^40"));
  EXPECT_TRUE(contains(problem(tensor("w", DataType::kFloat, {big}, "abcd")), "got 4"));
  EXPECT_TRUE(contains(problem(tensor("w", DataType::kFloat, std::vector<int64_t>(99, 1), "abcd")),
                       "99 dimensions"));
  EXPECT_TRUE(contains(problem(typed(DataType::kInt8, 1,
                                     [](auto& w) { w.add_int64(tensor_field::kInt32Data, 300); })),
                       "300 is no int8 value"));
  EXPECT_TRUE(
      contains(problem(typed(DataType::kFloat, 1,
                             [](auto& w) { w.add_string(tensor_field::kFloatData, "abcde"); })),
               "has 5 bytes, expected a multiple of 4"));
}

TEST(OnnxTensor, RefusesTypesItLacks) {
  EXPECT_EQ(problem(tensor("w", DataType::kString, {1}, "")),
            "t.onnx: tensor \"w\": string tensors are not supported");
  EXPECT_TRUE(contains(problem(tensor("w", DataType::kInt4, {1}, "")), "int4"));
  EXPECT_TRUE(contains(problem(tensor("w", static_cast<DataType>(99), {1}, "")),
                       "unknown element type 99"));
}

}  // namespace
}  // namespace stretto::onnx
