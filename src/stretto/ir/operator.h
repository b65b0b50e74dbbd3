// The operator table: schema, shape inference and reference of every operator, one row each.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "stretto/base/team.h"
#include "stretto/ir/graph.h"

namespace stretto::ir {

// Sets of element types, as bits 1 << DType.
using TypeSet = uint32_t;
constexpr TypeSet type_bit(DType dtype) { return 1u << static_cast<int>(dtype); }
constexpr TypeSet kFloatTypes = type_bit(DType::kFloat32) | type_bit(DType::kFloat64) |
                                type_bit(DType::kFloat16) | type_bit(DType::kBFloat16);
constexpr TypeSet kIntegerTypes = type_bit(DType::kInt8) | type_bit(DType::kInt16) |
                                  type_bit(DType::kInt32) | type_bit(DType::kInt64) |
                                  type_bit(DType::kUInt8) | type_bit(DType::kUInt16) |
                                  type_bit(DType::kUInt32) | type_bit(DType::kUInt64);
constexpr TypeSet kBoolType = type_bit(DType::kBool);
constexpr TypeSet kNumericTypes = kFloatTypes | kIntegerTypes;
constexpr TypeSet kAllTypes = kNumericTypes | kBoolType;
constexpr TypeSet kFloat8Types = type_bit(DType::kFloat8E4M3FN) | type_bit(DType::kFloat8E4M3FNUZ) |
                                 type_bit(DType::kFloat8E5M2) | type_bit(DType::kFloat8E5M2FNUZ);
constexpr TypeSet kNarrowTypes = kFloat8Types | type_bit(DType::kFloat8E8M0) |
                                 type_bit(DType::kFloat4E2M1) | type_bit(DType::kInt4) |
                                 type_bit(DType::kUInt4) | type_bit(DType::kInt2) |
                                 type_bit(DType::kUInt2);
// For operators that only move or convert data.
constexpr TypeSet kStoredTypes = kAllTypes | kNarrowTypes;
constexpr TypeSet kIndexTypes = type_bit(DType::kInt32) | type_bit(DType::kInt64);

enum class Arity : uint8_t { kRequired, kOptional, kVariadic };  // a variadic port is the last one

struct Port {
  std::string_view name;
  TypeSet types = kStoredTypes;
  Arity arity = Arity::kRequired;
  // Ports of one operator with the same letter hold the same type ('\0': no constraint).
  char type_variable = '\0';
};

enum class AttributeKind : uint8_t { kInt, kFloat, kString, kInts, kFloats, kStrings, kTensor };

struct AttributeSpec {
  std::string_view name;
  AttributeKind kind;
  bool required = false;
};

// What infer() sees and fills in. Shapes are fully known (inference runs after dimensions are
// bound) and inputs have passed the schema: count, types, attribute names and kinds.
class Inference {
 public:
  Inference(Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Attributes& attributes() const { return node_.attributes; }
  const std::string& name() const { return node_.name; }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  int output_count() const { return static_cast<int>(node_.outputs.size()); }
  bool has_input(int i) const;
  bool has_output(int i) const;
  DType dtype(int i) const;         // of input i
  const Shape& shape(int i) const;  // of input i
  int64_t rank(int i) const { return static_cast<int64_t>(shape(i).size()); }
  const Tensor* constant(int i) const;  // null when the input's value is not known
  // Integers of a constant input; throws Unsupported saying that `what` must be constant.
  std::vector<int64_t> constant_integers(int i, std::string_view what) const;

  void set_output(int i, DType dtype, Shape shape);

 private:
  Graph& graph_;
  const Node& node_;
};

// What evaluate() sees and fills in: the reference. Float inputs are all float32 or all float64 and
// results have the inputs' type; sums accumulate in double.
struct Evaluation {
  const Attributes& attributes;
  std::span<const Tensor> inputs;  // undefined where absent
  std::span<Tensor> outputs;       // to be assigned; allocate with the shapes from inference
  std::span<const Shape> output_shapes;
  std::span<const DType> output_dtypes;
  ThreadTeam* team = nullptr;  // optional, for the heavy operators

  bool has_input(int i) const { return i < static_cast<int>(inputs.size()) && inputs[i].defined(); }
  bool has_output(int i) const {
    return i < static_cast<int>(outputs.size()) && output_dtypes[i] != DType::kUndefined;
  }
  // A zeroed tensor of output i's type and shape, assigned to outputs[i].
  Tensor& make_output(int i);
};

struct Operator {
  std::string_view name;  // ONNX's name; "stretto.X" for our own
  std::span<const Port> inputs, outputs;
  std::span<const AttributeSpec> attributes;
  void (*infer)(Inference&);
  void (*evaluate)(Evaluation&);
  // Floating point operations; null means 0.
  double (*flops)(const Graph&, const Node&) = nullptr;
  // Whether every evaluation gives other results: nothing of it is known before a run or shared.
  bool random = false;
};

// All operators, by name. One canonical form each: that of the newest ONNX opset; the importer
// upgrades older forms. To add one: a file in ir/ops/ and a row in ir/ops/table.cc.
std::span<const Operator* const> operators();
const Operator* find_operator(std::string_view name);  // null when unknown

// Checks one node against its operator's schema. Throws InvalidArgument: `Conv "conv1": ...`.
void check_schema(const Graph& graph, const Node& node);

}  // namespace stretto::ir
