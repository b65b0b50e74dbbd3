#include "stretto/runtime/sample_inputs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/tensor/narrow.h"

namespace stretto::runtime {
namespace {

// Sizes of the axes along which input `i` of a node counts; none where it holds no indices.
std::vector<int64_t> indexed_sizes(const ir::Graph& graph, const ir::Node& node, size_t i) {
  const std::string_view op = node.op->name;
  if (i != 1) return {};
  if (op == "CumSum" || op == "CumProd") return {1};  // an axis that every input has
  const Shape& data = *graph.value(node.inputs[0]).shape;
  const auto rank = static_cast<int64_t>(data.size());
  if (op == "Gather" || op == "GatherElements" || op == "ScatterElements") {
    const int64_t axis = node.attributes.integer("axis", 0);
    return {data[static_cast<size_t>(axis < 0 ? axis + rank : axis)]};
  }
  if (op == "GatherND" || op == "ScatterND") {
    const Shape& indices = *graph.value(node.inputs[1]).shape;
    const int64_t first = op == "GatherND" ? node.attributes.integer("batch_dims", 0) : 0;
    return {data.begin() + first, data.begin() + first + indices.back()};
  }
  return {};
}

// Whether the outputs of a node hold the elements of its input `i`, and no others.
bool moves(const ir::Node& node, size_t i) {
  static constexpr std::string_view kFirst[] = {
      "Cast",  "Expand",  "Flatten",   "Gather", "GatherElements", "Identity", "Reshape",
      "Slice", "Squeeze", "Transpose", "Split",  "Tile",           "Unsqueeze"};
  const std::string_view op = node.op->name;
  if (op == "Concat" || (op == "Where" && i > 0)) return true;
  return i == 0 && std::find(std::begin(kFirst), std::end(kFirst), op) != std::end(kFirst);
}

// Rows of the smallest table that `id` indexes, directly or moved; 0 when it indexes none.
int64_t table_rows(const ir::Graph& graph, const ir::Links& links, ir::ValueId id) {
  int64_t rows = 0;
  std::vector<ir::ValueId> same{id};  // values that hold the same indices
  std::vector<bool> seen(graph.values.size());
  for (size_t at = 0; at < same.size(); ++at) {
    for (int user : links.users[same[at]]) {
      const ir::Node& node = graph.nodes[user];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != same[at]) continue;
        for (int64_t size : indexed_sizes(graph, node, i)) {
          if (size > 0) rows = rows == 0 ? size : std::min(rows, size);
        }
        if (!moves(node, i)) continue;
        for (ir::ValueId output : node.outputs) {
          if (output == ir::kNone || seen[static_cast<size_t>(output)]) continue;
          seen[static_cast<size_t>(output)] = true;
          same.push_back(output);
        }
      }
    }
  }
  return rows;
}

// Normal(0, 1) by Marsaglia's polar method (doi:10.1137/1006063). Unlike std::normal_distribution
// it gives the same values with every standard library, so that sample outputs in a file stay true.
class Normal {
 public:
  float operator()(std::mt19937_64& random) {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    float x = 0, y = 0, r = 0;
    do {
      x = 2 * uniform(random) - 1;
      y = 2 * uniform(random) - 1;
      r = x * x + y * y;
    } while (r > 1 || r == 0);
    const float scale = std::sqrt(-2 * std::log(r) / r);
    spare_ = x * scale;
    has_spare_ = true;
    return y * scale;
  }

 private:
  // In [0, 1).
  static float uniform(std::mt19937_64& random) {
    return std::min(static_cast<float>(random()) * 0x1p-64f, 1 - 0x1p-24f);
  }

  float spare_ = 0;
  bool has_spare_ = false;
};

// Neighbouring pixels of photographs resemble each other, and networks trained on them answer white
// noise with tiny, badly conditioned outputs. So images are a few random waves and a little noise.
void paint(Tensor& image, std::mt19937_64& random) {
  constexpr int kWaves = 6;
  Normal normal;
  auto values = image.mutable_values<float>();
  const int64_t h = image.dim(2), w = image.dim(3);
  for (int64_t plane = 0; plane < image.dim(0) * image.dim(1); ++plane) {
    struct Wave {
      float x, y, phase, height;
    } waves[kWaves];
    for (int i = 0; i < kWaves; ++i) {
      const float turns = static_cast<float>(1 << i) * 6.2832f;
      waves[i] = {turns * normal(random) / static_cast<float>(w),
                  turns * normal(random) / static_cast<float>(h), 3.0f * normal(random),
                  1.0f / static_cast<float>(1 + i)};
    }
    for (int64_t y = 0; y < h; ++y) {
      for (int64_t x = 0; x < w; ++x) {
        float sum = 0.1f * normal(random);
        for (const Wave& wave : waves) {
          sum += wave.height * std::cos(wave.x * static_cast<float>(x) +
                                        wave.y * static_cast<float>(y) + wave.phase);
        }
        values[(plane * h + y) * w + x] = sum;
      }
    }
  }
}

Tensor make_up(const ir::Graph& graph, const ir::Links& links, ir::ValueId id,
               std::mt19937_64& random) {
  const ir::Value& value = graph.value(id);
  const int64_t count = element_count(*value.shape);
  if (is_float(value.dtype)) {
    Tensor tensor(DType::kFloat32, *value.shape);
    const Shape& shape = *value.shape;
    if (shape.size() == 4 && (shape[1] == 1 || shape[1] == 3) && shape[2] >= 16 && shape[3] >= 16) {
      paint(tensor, random);
    } else {
      Normal normal;
      for (float& v : tensor.mutable_values<float>()) v = normal(random);
    }
    return value.dtype == DType::kFloat32 ? tensor : tensor.converted(value.dtype);
  }
  Tensor tensor(DType::kInt64, *value.shape);
  auto values = tensor.mutable_values<int64_t>();
  const int64_t rows = table_rows(graph, links, id);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = rows > 0 ? static_cast<int64_t>(random() % static_cast<uint64_t>(rows)) : 1;
  }
  return tensor.converted(value.dtype);
}

}  // namespace

std::vector<SampleInput> sample_inputs(const ir::Graph& graph,
                                       const std::map<std::string, Tensor>& given) {
  std::string names;
  for (ir::ValueId id : graph.inputs) names += (names.empty() ? "" : ", ") + graph.value(id).name;
  for (const auto& [name, tensor] : given) {
    const bool known =
        std::any_of(graph.inputs.begin(), graph.inputs.end(),
                    [&, &name = name](ir::ValueId id) { return graph.value(id).name == name; });
    if (!known) throw_invalid("inputs: the model has no input '{}'; it has: {}", name, names);
  }
  const ir::Links links(graph);
  std::mt19937_64 random(kSampleSeed);
  std::vector<SampleInput> samples;
  for (ir::ValueId id : graph.inputs) {
    const ir::Value& value = graph.value(id);
    const auto at = given.find(value.name);
    if (at == given.end()) {
      samples.push_back({make_up(graph, links, id, random), true});
      continue;
    }
    const DType given_type = at->second.dtype();
    // NumPy has no types of 8 bits and less, nor bfloat16: they are given as wider ones.
    const bool wider = given_type != value.dtype &&
                       ((is_narrow(value.dtype) && given_type == wide_type(value.dtype)) ||
                        (value.dtype == DType::kBFloat16 && given_type == DType::kFloat32));
    const bool rounded = wider || (given_type == DType::kFloat64 && value.dtype == DType::kFloat32);
    if ((at->second.dtype() != value.dtype && !rounded) || at->second.shape() != *value.shape) {
      throw_invalid("input {}: expected {} {}, got {} {}", value.name, dtype_name(value.dtype),
                    shape_text(*value.shape), dtype_name(at->second.dtype()),
                    shape_text(at->second.shape()));
    }
    samples.push_back(
        {rounded ? at->second.converted(value.dtype) : at->second, false, rounded && !wider});
  }
  return samples;
}

}  // namespace stretto::runtime
