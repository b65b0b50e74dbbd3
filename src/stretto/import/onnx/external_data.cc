#include "stretto/import/onnx/external_data.h"

#include <algorithm>
#include <tuple>

namespace stretto::onnx {
namespace {

// Parts of a file that lie closer together are stored as one.
constexpr uint64_t kSmallGap = 4096;
// Parts begin at multiples of this, so that tensors are aligned in memory as they are in the file.
constexpr uint64_t kAlignment = 64;

using Places = std::vector<TensorReader::ExternalPlace>;

class Collector {
 public:
  Collector(const Source& source, TensorReader& tensors) : source_(source), tensors_(tensors) {}

  Places run(const WireModel& model) {
    add_graph(*model.graph);
    for (const WireFunction& function : model.functions) {
      for (std::string_view attribute : function.attribute_defaults) add_attribute(attribute);
      add_nodes(function.nodes);
    }
    // A list instead of recursion: a file may nest graphs in any depth.
    while (!waiting_.empty()) {
      const std::string_view graph = waiting_.back();
      waiting_.pop_back();
      add_graph(read_graph(source_, graph));
    }
    return std::move(places_);
  }

 private:
  void add_graph(const WireGraph& graph) {
    for (const WireTensor& tensor : graph.initializers) {
      if (tensor.is_sparse) {
        add_sparse(tensor.body);
      } else {
        add_tensor(tensor.body);
      }
    }
    add_nodes(graph.nodes);
  }

  void add_nodes(const std::vector<WireNode>& nodes) {
    for (const WireNode& node : nodes) {
      for (std::string_view attribute : node.attributes) add_attribute(attribute);
    }
  }

  void add_attribute(std::string_view message) {
    Fields fields(source_, message, "attribute");
    while (fields.next()) {
      switch (fields.tag()) {
        case attribute_field::kTensor:
        case attribute_field::kTensors:
          add_tensor(fields.bytes());
          break;
        case attribute_field::kSparseTensor:
        case attribute_field::kSparseTensors:
          add_sparse(fields.bytes());
          break;
        case attribute_field::kGraph:
        case attribute_field::kGraphs:
          waiting_.push_back(fields.bytes());
          break;
        default:
          fields.skip();
      }
    }
  }

  void add_sparse(std::string_view message) {
    Fields fields(source_, message, "sparse tensor");
    while (fields.next()) {
      if (fields.tag() == sparse_tensor_field::kValues ||
          fields.tag() == sparse_tensor_field::kIndices) {
        add_tensor(fields.bytes());
      } else {
        fields.skip();
      }
    }
  }

  void add_tensor(std::string_view message) {
    if (auto place = tensors_.external_place(message)) places_.push_back(std::move(*place));
  }

  const Source& source_;
  TensorReader& tensors_;
  std::vector<std::string_view> waiting_;  // graphs of attributes
  Places places_;
};

}  // namespace

std::vector<ExternalData> read_external_data(const Source& source, const WireModel& model,
                                             TensorReader& tensors) {
  Places places = Collector(source, tensors).run(model);
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) {
    return std::tie(a.location, a.offset) < std::tie(b.location, b.offset);
  });
  std::vector<ExternalData> parts;
  for (size_t i = 0; i < places.size();) {
    const TensorReader::ExternalPlace& first = places[i];
    const uint64_t begin = first.offset / kAlignment * kAlignment;
    uint64_t end = first.offset + first.bytes.size();
    for (++i; i < places.size() && places[i].location == first.location &&
              places[i].offset <= end + kSmallGap;
         ++i) {
      end = std::max(end, places[i].offset + places[i].bytes.size());
    }
    ExternalData& part = parts.emplace_back();
    part.location = first.location;
    part.offset = begin;
    part.bytes.add_view(first.file->bytes().subspan(begin, end - begin));
  }
  return parts;
}

}  // namespace stretto::onnx
