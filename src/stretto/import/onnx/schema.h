// Field numbers and enumerations of the ONNX protobuf schema (onnx.proto3 of ONNX, IR version 13),
// as far as a reader of models needs them.
#pragma once

#include <cstdint>
#include <string_view>

namespace stretto::onnx {

namespace model_field {
enum : uint32_t {
  kIrVersion = 1,
  kProducerName = 2,
  kProducerVersion = 3,
  kGraph = 7,
  kOpsetImport = 8,
  kTrainingInfo = 20,
  kFunctions = 25
};
}
namespace opset_field {
enum : uint32_t { kDomain = 1, kVersion = 2 };
}
namespace graph_field {
enum : uint32_t {
  kNode = 1,
  kName = 2,
  kInitializer = 5,
  kInput = 11,
  kOutput = 12,
  kSparseInitializer = 15
};
}
namespace node_field {
enum : uint32_t {
  kInput = 1,
  kOutput = 2,
  kName = 3,
  kOpType = 4,
  kAttribute = 5,
  kDomain = 7,
  kOverload = 8
};
}
namespace function_field {
enum : uint32_t {
  kName = 1,
  kInput = 4,
  kOutput = 5,
  kAttribute = 6,
  kNode = 7,
  kOpsetImport = 9,
  kDomain = 10,
  kAttributeProto = 11,
  kOverload = 13
};
}
namespace attribute_field {
enum : uint32_t {
  kName = 1,
  kFloat = 2,
  kInt = 3,
  kString = 4,
  kTensor = 5,
  kGraph = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kTensors = 10,
  kGraphs = 11,
  kTypeProto = 14,
  kTypeProtos = 15,
  kType = 20,
  kRefAttrName = 21,
  kSparseTensor = 22,
  kSparseTensors = 23
};
}
namespace tensor_field {
enum : uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUInt64Data = 11,
  kExternalData = 13,
  kDataLocation = 14
};
}
namespace sparse_tensor_field {
enum : uint32_t { kValues = 1, kIndices = 2, kDims = 3 };
}
namespace entry_field {
enum : uint32_t { kKey = 1, kValue = 2 };
}
namespace value_info_field {
enum : uint32_t { kName = 1, kType = 2 };
}
namespace type_field {
enum : uint32_t {
  kTensor = 1,
  kSequence = 4,
  kMap = 5,
  kOpaque = 7,
  kSparseTensor = 8,
  kOptional = 9
};
}
namespace tensor_type_field {
enum : uint32_t { kElemType = 1, kShape = 2 };
}
namespace shape_field {
enum : uint32_t { kDim = 1 };
}
namespace dimension_field {
enum : uint32_t { kValue = 1, kParam = 2 };
}

enum class AttributeType : int64_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14
};

enum class DataType : int64_t {
  kUndefined = 0,
  kFloat = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26
};

// Attributes of operators that are element types, as numbers of DataType.
constexpr std::string_view kTypeAttributes[] = {"to",        "output_dtype",    "precision",
                                                "dtype",     "output_datatype", "softmax_precision",
                                                "stash_type"};

constexpr int64_t kExternalLocation = 1;  // TensorProto.DataLocation.EXTERNAL

// Opsets of the default domain that the upgrade table understands.
constexpr int64_t kOldestOpset = 6;
constexpr int64_t kNewestOpset = 28;

}  // namespace stretto::onnx
