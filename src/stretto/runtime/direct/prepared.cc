#include "stretto/runtime/direct/prepared.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "stretto/base/error.h"
#include "stretto/import/onnx/node.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/direct/forms.h"
#include "stretto/runtime/memory_check.h"

namespace stretto::runtime::direct {
namespace {

// What may be kept beside a constant: so many times its bytes, and so many more.
constexpr int64_t kPackedShare = 8, kPackedLeast = 1 << 20;

// Rates of a fast core: only the order of magnitude counts. References take some nanoseconds for
// what kernels do in a fraction of one.
constexpr double kFlopsPerLane = 10e9, kBytesPerSecond = 10e9, kSlowdownOfReferences = 50;
// Packing moves values one by one.
constexpr double kPackedBytesPerSecond = 1e9;

// Below this, handing work to other threads takes a good part of what it saves.
constexpr double kWorthThreads = 50e-6;
// Other threads of Python get the interpreter's lock after some milliseconds; letting it go and
// taking it again takes a fraction of a microsecond, or much longer where somebody else wants it.
constexpr double kBrief = 20e-6;

// Float arrays that the kernel may want to pack, filled with what no pass mistakes for something
// simpler: numbers of which no two placeholders have the same.
Tensor placeholder(DType dtype, const Shape& shape, uint64_t seed) {
  Tensor tensor(DType::kFloat32, shape);
  uint64_t state = 0x9e3779b97f4a7c15 * (seed + 1);
  for (float& value : tensor.mutable_values<float>()) {
    state = state * 6364136223846793005 + 1442695040888963407;
    value = 0.25f + static_cast<float>(state >> 40) / static_cast<float>(1 << 25);
  }
  return dtype == DType::kFloat32 ? tensor : tensor.converted(dtype);
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.bytes() == b.bytes();
}

class Preparation {
 public:
  Preparation(const Making& making, const DirectOperator& op, std::span<const Argument> arguments)
      : making_(making), op_(op), arguments_(arguments) {}

  std::shared_ptr<Prepared> run(const ir::Attributes& attributes, int outputs, int64_t opset,
                                bool with_placeholders) {
    onnx::NodeRequest request{.domain = op_.signature->domain,
                              .op = op_.signature->op,
                              .attributes = with_type_numbers(attributes),
                              .outputs = outputs,
                              .opset = opset,
                              .form = with_placeholders ? nullptr : find_form(op_.signature->op)};
    auto prepared = std::make_shared<Prepared>();
    prepared->op = &op_;
    placeholders_.assign(arguments_.size(), Tensor());
    for (size_t i = 0; i < arguments_.size(); ++i) {
      request.inputs.push_back(input(i, with_placeholders, *prepared));
    }
    ImportedModel model = onnx::import_node(request);
    widen_constants(model.graph);
    check_memory(model.graph);
    auto graph = std::make_shared<ir::Graph>(std::move(model.graph));
    // Taps that see padding only would be cut out of weights that are not known yet.
    passes::run_pipeline(*graph, {.disabled = with_placeholders ? std::set<std::string>{"conv-taps"}
                                                                : std::set<std::string>{},
                                  .verify = false});
    kernels::Target target = making_.target;
    if (expected_seconds(*graph) < kWorthThreads) target.threads = 1;
    Compiled compiled = compile_for(graph, target, {});
    if (with_placeholders) {
      const auto forced = rows_for_packing(compiled);
      if (!forced.empty()) compiled = compile_for(graph, target, forced);
      if (!trace(compiled, *prepared)) return nullptr;
    }
    check_memory(compiled.program);
    finish(*graph, std::move(compiled.program), *prepared);
    return prepared;
  }

  bool has_placeholders() const {
    for (size_t i = 1; i < arguments_.size(); ++i) {
      if (may_be_packed(i)) return true;
    }
    return false;
  }

 private:
  bool may_be_packed(size_t i) const {
    const Argument& a = arguments_[i];
    return i > 0 && a.kind == ArgumentKind::kArray && a.dtype == DType::kFloat32 && a.bytes() > 0;
  }

  std::string name_of(size_t i) const {
    const auto& ports = op_.signature->inputs;
    if (i < ports.size() && ports[i].arity != ir::Arity::kVariadic) return ports[i].name;
    return fmt::format("input {}", i);
  }

  onnx::NodeInput input(size_t i, bool with_placeholders, Prepared& prepared) {
    const Argument& a = arguments_[i];
    onnx::NodeInput result{.name = name_of(i)};
    if (a.kind == ArgumentKind::kAbsent) return result;
    result.dtype = a.dtype;
    result.shape.assign(a.shape.begin(), a.shape.end());
    if (a.kind == ArgumentKind::kConstant) {
      result.constant = (*a.constant)->tensor;
      if (!largest_ || (*largest_)->tensor.bytes() < result.constant.bytes()) {
        largest_ = *a.constant;
      }
      prepared.constants.emplace_back(*a.constant);
    } else if (a.kind == ArgumentKind::kValue) {
      result.constant = Tensor(a.dtype, result.shape);
      std::memcpy(result.constant.mutable_data(), a.data, result.constant.bytes());
    } else if (with_placeholders && may_be_packed(i)) {
      placeholders_[i] = result.constant = placeholder(a.dtype, result.shape, i);
    } else {
      prepared.argument_of.push_back(static_cast<int>(i));
    }
    return result;
  }

  Compiled compile_for(const std::shared_ptr<ir::Graph>& graph, const kernels::Target& target,
                       const std::map<std::string, std::string>& forced) {
    Selector selector({.known = making_.known});
    CompileOptions options{.forced_nodes = forced};
    // Calls with other batches use the same packed weights. What is computed from a constant may
    // have another address every time, so what is kept beside it is bounded.
    if (largest_) {
      SharedWeights& packed = (*largest_)->made().packed;
      if (packed.bytes() >
          static_cast<int64_t>(kPackedShare * (*largest_)->tensor.bytes() + kPackedLeast))
        packed.clear();
      options.shared = &packed;
    }
    return compile(graph, target, selector, options);
  }

  double expected_seconds(const ir::Graph& graph) const {
    double bytes = 0;
    for (const Argument& a : arguments_) bytes += static_cast<double>(a.bytes());
    for (ir::ValueId id : graph.outputs) {
      bytes += static_cast<double>(element_count(*graph.value(id).shape)) *
               static_cast<double>(dtype_bytes(graph.value(id).dtype));
    }
    return std::max(ir::flops(graph) / (kFlopsPerLane * making_.target.lanes()),
                    bytes / kBytesPerSecond);
  }

  int argument_with(const Tensor& tensor) const {
    for (size_t i = 0; i < placeholders_.size(); ++i) {
      if (placeholders_[i].defined() && same_memory(placeholders_[i], tensor)) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  bool is_given(const Tensor& tensor) const {
    return std::any_of(arguments_.begin(), arguments_.end(), [&](const Argument& a) {
      if (a.kind != ArgumentKind::kConstant) return false;
      return same_memory((*a.constant)->tensor, tensor) ||
             (is_half(a.dtype) && same_memory((*a.constant)->wide(), tensor));
    });
  }

  // Halves become float32 where they are needed so: once, whatever their size, and for all programs
  // that they are packed for.
  void widen_constants(ir::Graph& graph) const {
    std::erase_if(graph.nodes, [&](const ir::Node& node) {
      if (node.op->name != "Cast") return false;
      const Tensor& from = graph.value(node.inputs[0]).constant;
      ir::Value& to = graph.value(node.outputs[0]);
      const auto& outputs = graph.outputs;
      if (!from.defined() || !is_half(from.dtype()) || to.dtype != DType::kFloat32 ||
          std::find(outputs.begin(), outputs.end(), node.outputs[0]) != outputs.end()) {
        return false;
      }
      for (const Argument& a : arguments_) {
        if (a.kind != ArgumentKind::kConstant || !same_memory((*a.constant)->tensor, from))
          continue;
        to.constant = (*a.constant)->wide();
        return true;
      }
      return false;
    });
    ir::remove_dead(graph);
  }

  bool packs_arguments(const Compiled& compiled, size_t instruction) const {
    const auto& from = compiled.packed_from[instruction];
    return std::any_of(from.begin(), from.end(),
                       [&](const Tensor& t) { return argument_with(t) >= 0; });
  }

  // The kernel that is fastest together with its packing, where that is another one.
  std::map<std::string, std::string> rows_for_packing(const Compiled& compiled) const {
    std::map<std::string, std::string> forced;
    const Program& program = compiled.program;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& in = program.instructions[i];
      if (in.family == nullptr || !packs_arguments(compiled, i)) continue;
      int best = in.row;
      double least = std::numeric_limits<double>::infinity();
      for (int row = 0; row < in.family->rows; ++row) {
        const kernels::Fit fit = in.family->fits(row, in.problem.data());
        if (!fit.ok) continue;
        const double seconds =
            estimate_seconds(*in.family, in.problem.data(), fit.expected) +
            static_cast<double>(in.family->packed_bytes(row, in.problem.data())) /
                kPackedBytesPerSecond;
        if (seconds < least) {
          least = seconds;
          best = row;
        }
      }
      if (best != in.row) forced[in.node] = std::string(in.family->row_name(best));
    }
    return forced;
  }

  // Finds every placeholder again among what instructions pack or read. False when one has become
  // something else: then the program does not follow from the arguments.
  bool trace(Compiled& compiled, Prepared& prepared) const {
    Program& program = compiled.program;
    std::vector<bool> found(arguments_.size());
    std::vector<bool> anew(program.blobs.size());
    prepared.argument_of_blob.assign(program.blobs.size(), -1);
    for (const OperandBlob& blob : compiled.operand_blobs) {
      const int argument = argument_with(blob.constant);
      if (argument < 0) {
        if (!is_given(blob.constant)) return false;
        continue;
      }
      if (blob.layout != Layout::kPlain) return false;
      prepared.argument_of_blob[blob.blob] = argument;
      found[argument] = anew[blob.blob] = true;
    }
    int64_t end = round_up(program.arena_bytes, kAlignment);
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& in = program.instructions[i];
      if (in.interpreted != nullptr) return false;
      if (!packs_arguments(compiled, i)) continue;
      Packing packing{.instruction = static_cast<int>(i), .offset = end};
      for (const Tensor& tensor : compiled.packed_from[i]) {
        const int argument = argument_with(tensor);
        if (argument < 0 && !is_given(tensor)) return false;
        if (argument >= 0) found[argument] = true;
        packing.from.push_back(
            {argument,
             argument < 0 ? tensor : Tensor(tensor.dtype(), tensor.shape(), nullptr, {})});
      }
      if (in.packed < 0) continue;  // the kernel reads none of it
      packing.bytes = program.blobs[in.packed].bytes;
      anew[in.packed] = true;
      end += round_up(packing.bytes, kAlignment);
      prepared.packings.push_back(std::move(packing));
    }
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (placeholders_[i].defined() && !found[i]) return false;
    }
    // What was packed of placeholders goes.
    for (size_t b = 0; b < anew.size(); ++b) {
      if (anew[b]) program.blobs[b].data = nullptr;
    }
    if (std::all_of(anew.begin(), anew.end(), [](bool a) { return a; })) program.owners.clear();
    prepared.lane_bytes = end;
    return true;
  }

  void finish(const ir::Graph& graph, Program program, Prepared& prepared) const {
    prepared.program = std::move(program);
    prepared.argument_of_blob.resize(prepared.program.blobs.size(), -1);
    prepared.lane_bytes = std::max(prepared.lane_bytes, prepared.program.arena_bytes);
    prepared.seconds = expected_seconds(graph);
    for (const Packing& packing : prepared.packings) {
      prepared.seconds += static_cast<double>(packing.bytes) / kPackedBytesPerSecond;
    }
    if (prepared.interprets()) prepared.seconds *= kSlowdownOfReferences;
    prepared.brief = prepared.program.target.threads == 1 && prepared.seconds < kBrief;
  }

  const Making& making_;
  const DirectOperator& op_;
  std::span<const Argument> arguments_;
  std::vector<Tensor> placeholders_;  // per argument
  std::optional<std::shared_ptr<const ops::Constant::State>> largest_;
};

}  // namespace

bool Prepared::interprets() const {
  return std::any_of(program.instructions.begin(), program.instructions.end(),
                     [](const Instruction& in) { return in.interpreted != nullptr; });
}

std::shared_ptr<const Prepared> prepare(const Making& making, const DirectOperator& op,
                                        std::span<const Argument> arguments,
                                        const ir::Attributes& attributes, int outputs,
                                        int64_t opset) {
  return onnx::with_operator(op.signature->op, [&]() -> std::shared_ptr<const Prepared> {
    Preparation preparation(making, op, arguments);
    std::shared_ptr<const Prepared> prepared = preparation.run(attributes, outputs, opset, false);
    // Kernels that need to know their weights get them in every call.
    if (prepared->interprets() && preparation.has_placeholders()) {
      if (auto packing = preparation.run(attributes, outputs, opset, true)) return packing;
    }
    return prepared;
  });
}

}  // namespace stretto::runtime::direct
