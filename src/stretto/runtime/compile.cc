#include "stretto/runtime/compile.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/kernels/access.h"
#include "stretto/kernels/reorder/problem.h"
#include "stretto/runtime/memory_plan.h"

namespace stretto::runtime {
namespace {

// Variants that expect to take longer than this times the step's best are never measured.
constexpr double kPlausible = 2.5;

// Cost of a variant that a forced kernel cannot do: any other variant is better.
constexpr double kImpossibleSeconds = 1e3;

// Factor on expectations where another layout of the same step was measured.
constexpr double kDoubt = 2;

using kernels::ReorderProblem;

ReorderProblem reorder_problem(const Shape& shape, Layout from, Layout to,
                               const kernels::Target& target) {
  ReorderProblem p{};
  p.target = target;
  p.n = shape[0];
  p.c = shape[1];
  p.h = shape[2];
  p.w = shape[3];
  p.from = from;
  p.to = to;
  return p;
}

// A value in one layout: the unit of storage.
using Instance = std::pair<ir::ValueId, Layout>;

// Where an instance lies relative to another one, or its own memory.
struct Storage {
  int64_t bytes = 0;
  int parent = -1;           // index of the storage this one lies in; -1: its own
  int64_t offset_bytes = 0;  // within the parent
  Place place = Place::kArena;
  int32_t index = 0;  // of the input or output
  bool made_by_kernel = false;
  int first = INT32_MAX, last = -1;  // instructions that touch it (roots only)
};

struct PackJob {
  int instruction;
  const Step* step;
};

class Compiler {
 public:
  Compiler(std::shared_ptr<ir::Graph> graph, const kernels::Target& target, Selector& selector,
           const CompileOptions& options)
      : target_(target),
        selector_(selector),
        options_(options),
        lowered_(lower(std::move(graph), target)) {}

  Compiled compile() {
    measure();
    const std::vector<PlacedStep> placed = choose_layouts(lowered_, costs());
    describe_faces();
    for (const PlacedStep& step : placed) emit(step);
    emit_outputs();
    plan();
    pack();
    return std::move(result_);
  }

 private:
  const ir::Graph& graph() const { return *lowered_.graph; }
  const Shape& shape(ir::ValueId id) const { return *graph().value(id).shape; }
  Program& program() { return result_.program; }

  // --- selection

  void measure() {
    if (!selector_.measures()) return;
    std::vector<Selector::Request> requests;
    for (const Step& step : lowered_.steps) {
      if (step.kind != StepKind::kKernel) continue;
      std::vector<double> estimates;
      for (const Variant& v : step.variants) {
        const int row = kernels::default_row(*step.family, v.problem.data());
        const double expected = step.family->fits(row, v.problem.data()).expected;
        estimates.push_back(estimate_seconds(*step.family, v.problem.data(), expected));
      }
      const double best = *std::min_element(estimates.begin(), estimates.end());
      for (size_t v = 0; v < step.variants.size(); ++v) {
        if (estimates[v] <= kPlausible * best) {
          requests.push_back({step.family, step.variants[v].problem.data()});
        }
      }
    }
    selector_.measure(std::move(requests), options_.progress);
  }

  // What the selector says, unless the node was given a kernel of its own.
  Selection selection_for(const std::string& node, const kernels::Family& family,
                          const void* problem) {
    const auto forced = options_.forced_nodes.find(node);
    if (forced == options_.forced_nodes.end()) return selector_.select(family, problem);
    const int row = kernels::find_row(family, forced->second);
    if (row < 0) {
      throw_invalid("{}: {} has no kernel '{}'", node, family.name, forced->second);
    }
    const kernels::Fit fit = family.fits(row, problem);
    Selection s{.family = &family, .row = row, .estimate = kImpossibleSeconds, .why = "forced"};
    if (fit.ok) s.estimate = estimate_seconds(family, problem, fit.expected);
    return s;
  }

  // An expectation next to a measured time is taken with a grain of salt: layouts must not be
  // chosen for a promise.
  double kernel_cost(const Step& step, int v) {
    const auto selection = [&](const Variant& variant) {
      return selection_for(step.node->name, *step.family, variant.problem.data());
    };
    const Selection mine = selection(step.variants[v]);
    const bool other_measured =
        mine.seconds == 0 &&
        std::any_of(step.variants.begin(), step.variants.end(),
                    [&](const Variant& variant) { return selection(variant).seconds > 0; });
    return other_measured ? mine.cost() * kDoubt : mine.cost();
  }

  Costs costs() {
    return {.step =
                [this](const Step& step, int v) {
                  switch (step.kind) {
                    case StepKind::kKernel:
                      return kernel_cost(step, v);
                    case StepKind::kInterpret:
                      return 1e-3;
                    case StepKind::kView:
                    case StepKind::kJoin:
                      break;
                  }
                  return 0.0;
                },
            .reorder =
                [this](ir::ValueId id, Layout from, Layout to) {
                  if (shape(id).size() != 4) return 1e6;
                  if (same_in_both_layouts(shape(id), target_.block())) return 0.0;
                  const ReorderProblem p = reorder_problem(shape(id), from, to, target_);
                  return selector_.select(kernels::kReorder, &p).cost();
                }};
  }

  // --- storage

  int storage_of(ir::ValueId id, Layout layout) {
    const auto [at, fresh] = instances_.try_emplace({id, layout}, 0);
    if (!fresh) return at->second;
    const ir::Value& value = graph().value(id);
    Storage s;
    s.bytes = storage_elements(*value.shape, layout, target_.block()) *
              static_cast<int64_t>(dtype_bytes(value.dtype));
    at->second = static_cast<int>(storages_.size());
    storages_.push_back(s);
    if (value.is_constant()) {
      storages_.back().place = Place::kConstant;
      storages_.back().index = static_cast<int32_t>(program().blobs.size());
      program().blobs.push_back(
          {.key = fmt::format("{}|{}", value.name, layout_name(layout)), .bytes = s.bytes});
      constants_.emplace_back(storages_.back().index, Instance{id, layout});
    } else if (layout == Layout::kPlain) {
      const auto& inputs = graph().inputs;
      const auto found = std::find(inputs.begin(), inputs.end(), id);
      if (found != inputs.end()) {
        storages_.back().place = Place::kInput;
        storages_.back().index = static_cast<int32_t>(found - inputs.begin());
      }
    }
    return at->second;
  }

  std::pair<int, int64_t> root_of(int storage) const {
    int64_t offset = 0;
    while (storages_[storage].parent >= 0) {
      offset += storages_[storage].offset_bytes;
      storage = storages_[storage].parent;
    }
    return {storage, offset};
  }

  void lie_within(int child, int parent, int64_t offset_bytes) {
    storages_[child].parent = parent;
    storages_[child].offset_bytes = offset_bytes;
  }

  // --- instructions

  struct Operands {
    std::vector<int> inputs, outputs;  // storages
  };

  Instruction& add_instruction(Instruction instruction, Operands operands, Explanation why) {
    for (int s : operands.outputs) storages_[s].made_by_kernel = true;
    program().instructions.push_back(std::move(instruction));
    operands_.push_back(std::move(operands));
    result_.explanations.push_back(std::move(why));
    return program().instructions.back();
  }

  void emit(const PlacedStep& placed) {
    if (placed.step == nullptr) return emit_reorder(placed);
    const Step& step = *placed.step;
    switch (step.kind) {
      case StepKind::kKernel:
        return emit_kernel(step, step.variants[placed.variant]);
      case StepKind::kView:
        return emit_view(step, step.variants[placed.variant]);
      case StepKind::kJoin:
        return emit_join(step, step.variants[placed.variant]);
      case StepKind::kInterpret:
        return emit_interpreted(step);
    }
  }

  void emit_reorder(const PlacedStep& placed) {
    const int from = storage_of(placed.value, placed.from);
    const int to = storage_of(placed.value, placed.to);
    if (same_in_both_layouts(shape(placed.value), target_.block())) return lie_within(to, from, 0);
    const ReorderProblem p = reorder_problem(shape(placed.value), placed.from, placed.to, target_);
    add_kernel(kernels::kReorder, &p, {{from}, {to}}, graph().value(placed.value).name, "reorder");
  }

  Instruction& add_kernel(const kernels::Family& family, const void* problem, Operands operands,
                          const std::string& node, std::string_view op) {
    const Selection selection = selection_for(node, family, problem);
    if (const kernels::Fit fit = family.fits(selection.row, problem); !fit.ok) {
      throw_unsupported("{}: kernel {} was asked for but does not fit {}: {}", node,
                        family.row_name(selection.row), family.key(problem), fit.reason);
    }
    const auto* bytes = static_cast<const std::byte*>(problem);
    return add_instruction({.family = &family,
                            .row = selection.row,
                            .problem = {bytes, bytes + family.problem_bytes},
                            .node = node,
                            .op = std::string(op)},
                           std::move(operands),
                           {family.key(problem), selection, family.flops(problem)});
  }

  void emit_kernel(const Step& step, const Variant& variant) {
    Operands operands;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      operands.inputs.push_back(storage_of(step.inputs[i], variant.inputs[i]));
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      operands.outputs.push_back(storage_of(step.outputs[i], variant.outputs[i]));
    }
    add_kernel(*step.family, variant.problem.data(), std::move(operands), step.node->name,
               step.node->op->name);
    pack_jobs_.push_back({static_cast<int>(program().instructions.size()) - 1, &step});
  }

  void emit_view(const Step& step, const Variant& variant) {
    const int from = storage_of(step.inputs[0], variant.inputs[0]);
    const int to = storage_of(step.outputs[0], variant.outputs[0]);
    const auto element = static_cast<int64_t>(dtype_bytes(graph().value(step.outputs[0]).dtype));
    const int64_t offset = step.view_offset * element;
    const int64_t total = root_of(from).second + offset;
    if (total % static_cast<int64_t>(kAlignment) == 0) return lie_within(to, from, offset);
    // Kernels may rely on alignment, so a crooked view becomes a copy.
    add_copy(from, offset, to, 0, storages_[to].bytes, step.node->name);
  }

  void emit_join(const Step& step, const Variant& variant) {
    const int to = storage_of(step.outputs[0], variant.outputs[0]);
    int64_t offset = 0;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int from = storage_of(step.inputs[i], variant.inputs[i]);
      const int64_t bytes = storages_[from].bytes;
      const bool in_place = storages_[from].parent < 0 && storages_[from].made_by_kernel &&
                            storages_[from].place == Place::kArena &&
                            offset % static_cast<int64_t>(kAlignment) == 0;
      if (in_place) {
        lie_within(from, to, offset);
      } else {
        add_copy(from, 0, to, offset, bytes, step.node->name);
      }
      offset += bytes;
    }
    storages_[to].made_by_kernel = true;
  }

  void add_copy(int from, int64_t from_offset, int to, int64_t to_offset, int64_t bytes,
                const std::string& node) {
    Instruction copy{.copy_bytes = bytes, .node = node, .op = "copy"};
    // Offsets within the operands; plan() adds those of their storages.
    copy.inputs.push_back({.offset = from_offset});
    copy.outputs.push_back({.offset = to_offset});
    add_instruction(std::move(copy), {{from}, {to}}, {});
  }

  void emit_interpreted(const Step& step) {
    auto node = std::make_shared<InterpretedNode>();
    ir::Graph& own = node->graph;
    own.name = step.node->name;
    Operands operands;
    std::map<ir::ValueId, ir::ValueId> renamed;
    const auto take = [&](ir::ValueId id) {
      if (id == ir::kNone) return ir::kNone;
      const auto [at, fresh] = renamed.try_emplace(id, static_cast<ir::ValueId>(own.values.size()));
      if (fresh) own.values.push_back(graph().value(id));
      return at->second;
    };
    ir::Node copy = *step.node;
    for (ir::ValueId& id : copy.inputs) {
      const ir::ValueId original = id;
      const bool fresh = original != ir::kNone && !renamed.contains(original);
      id = take(original);
      if (!fresh || graph().value(original).is_constant()) continue;
      own.inputs.push_back(id);
      operands.inputs.push_back(storage_of(original, Layout::kPlain));
    }
    for (ir::ValueId& id : copy.outputs) {
      const ir::ValueId original = id;
      id = take(original);
      if (original == ir::kNone) continue;
      own.outputs.push_back(id);
      operands.outputs.push_back(storage_of(original, Layout::kPlain));
    }
    own.nodes.push_back(std::move(copy));
    add_instruction({.interpreted = std::move(node),
                     .node = step.node->name,
                     .op = std::string(step.node->op->name)},
                    std::move(operands),
                    {.problem = "", .selection = {.why = "no kernel; the reference runs"}});
  }

  // --- faces

  void describe_faces() {
    program().target = target_;
    const auto specs = [&](const std::vector<ir::ValueId>& ids) {
      std::vector<TensorSpec> list;
      for (ir::ValueId id : ids) {
        const ir::Value& v = graph().value(id);
        list.push_back({v.name, v.dtype, *v.shape});
      }
      return list;
    };
    program().inputs = specs(graph().inputs);
    program().outputs = specs(graph().outputs);
  }

  void emit_outputs() {
    for (size_t i = 0; i < graph().outputs.size(); ++i) {
      const int s = storage_of(graph().outputs[i], Layout::kPlain);
      const auto [root, offset] = root_of(s);
      Storage& r = storages_[root];
      if (r.place == Place::kArena && offset == 0 && r.bytes == storages_[s].bytes) {
        r.place = Place::kOutput;
        r.index = static_cast<int32_t>(i);
        continue;
      }
      Storage face{
          .bytes = storages_[s].bytes, .place = Place::kOutput, .index = static_cast<int32_t>(i)};
      storages_.push_back(face);
      add_copy(s, 0, static_cast<int>(storages_.size()) - 1, 0, face.bytes,
               graph().value(graph().outputs[i]).name);
    }
  }

  // --- memory

  void plan() {
    const int count = static_cast<int>(program().instructions.size());
    for (int i = 0; i < count; ++i) {
      for (const auto* list : {&operands_[i].inputs, &operands_[i].outputs}) {
        for (int s : *list) {
          Storage& root = storages_[root_of(s).first];
          root.first = std::min(root.first, i);
          root.last = std::max(root.last, i);
        }
      }
    }
    std::vector<Lifetime> lives;
    std::vector<int> owner;  // storage index, or -1 - instruction for scratch
    for (size_t s = 0; s < storages_.size(); ++s) {
      const Storage& storage = storages_[s];
      if (storage.parent >= 0 || storage.place != Place::kArena || storage.last < 0) continue;
      lives.push_back({storage.bytes, storage.first, storage.last});
      owner.push_back(static_cast<int>(s));
    }
    for (int i = 0; i < count; ++i) {
      const Instruction& in = program().instructions[i];
      if (in.family == nullptr) continue;
      const auto bytes = static_cast<int64_t>(in.family->scratch_bytes(in.row, in.problem.data()));
      if (bytes == 0) continue;
      lives.push_back({bytes, i, i});
      owner.push_back(-1 - i);
    }
    const MemoryPlan plan = plan_memory(lives, kAlignment);
    program().arena_bytes = plan.total_bytes;
    std::vector<int64_t> arena_offset(storages_.size(), 0);
    for (size_t l = 0; l < lives.size(); ++l) {
      if (owner[l] >= 0) {
        arena_offset[owner[l]] = plan.offsets[l];
      } else {
        program().instructions[-1 - owner[l]].scratch_offset = plan.offsets[l];
      }
    }
    for (int i = 0; i < count; ++i) {
      Instruction& in = program().instructions[i];
      const auto locate = [&](const std::vector<int>& list, std::vector<Location>& locations) {
        locations.resize(list.size());  // copies already hold an offset within the operand
        for (size_t o = 0; o < list.size(); ++o) {
          const auto [root, offset] = root_of(list[o]);
          const Storage& storage = storages_[root];
          Location& location = locations[o];
          location.place = storage.place;
          location.index = storage.index;
          location.offset += offset;
          if (storage.place == Place::kArena) location.offset += arena_offset[root];
        }
      };
      locate(operands_[i].inputs, in.inputs);
      locate(operands_[i].outputs, in.outputs);
    }
  }

  // --- weights

  void write_constant(std::byte* to, const Instance& instance) const {
    const Tensor& tensor = graph().value(instance.first).constant;
    if (instance.second == Layout::kPlain) {
      std::memcpy(to, tensor.data(), tensor.bytes());
      return;
    }
    const Shape& s = tensor.shape();
    const kernels::Access access({s[0], s[1], s[2], s[3]}, Layout::kBlocked, target_.block());
    const auto* from = static_cast<const float*>(tensor.data());
    auto* out = reinterpret_cast<float*>(to);
    for (int64_t n = 0; n < s[0]; ++n) {
      for (int64_t c = 0; c < s[1]; ++c) {
        for (int64_t y = 0; y < s[2]; ++y) {
          for (int64_t x = 0; x < s[3]; ++x) out[access.at(n, c, y, x)] = *from++;
        }
      }
    }
  }

  void pack() {
    // Layers that share weights, kernel and problem share the packed form.
    std::map<std::string, int32_t> shared;
    std::vector<PackJob> jobs;
    for (const PackJob& job : pack_jobs_) {
      Instruction& in = program().instructions[job.instruction];
      const auto bytes = static_cast<int64_t>(in.family->packed_bytes(in.row, in.problem.data()));
      if (bytes == 0) continue;
      const std::string what =
          fmt::format("{} {}", in.family->row_name(in.row), in.family->key(in.problem.data()));
      std::string same = what;
      for (const Tensor& t : job.step->constants) {
        same += fmt::format(" {}", static_cast<const void*>(t.data()));
      }
      const auto [at, fresh] =
          shared.try_emplace(std::move(same), static_cast<int32_t>(program().blobs.size()));
      in.packed = at->second;
      if (!fresh) continue;
      program().blobs.push_back({.key = fmt::format("{}|{}", in.node, what), .bytes = bytes});
      jobs.push_back(job);
    }
    find_packed();
    allocate_blobs();
    for (const auto& [blob, instance] : constants_) {
      if (fresh_[blob]) write_constant(memory(blob), instance);
    }
    std::erase_if(jobs, [&](const PackJob& job) {
      return !fresh_[program().instructions[job.instruction].packed];
    });
    run_jobs(jobs);
  }

  // Takes over what an artefact already holds.
  void find_packed() {
    fresh_.assign(program().blobs.size(), true);
    if (!options_.packed) return;
    for (size_t b = 0; b < program().blobs.size(); ++b) {
      Blob& blob = program().blobs[b];
      const Blob found = options_.packed(blob.key);
      const bool aligned = reinterpret_cast<uintptr_t>(found.data) % kAlignment == 0;
      if (found.data == nullptr || found.bytes != blob.bytes || !aligned) continue;
      blob.data = found.data;
      fresh_[b] = false;
    }
    program().owners.push_back(options_.packed_owner);
  }

  void allocate_blobs() {
    int64_t total = 0;
    for (size_t b = 0; b < fresh_.size(); ++b) {
      if (fresh_[b]) total += round_up(program().blobs[b].bytes, kAlignment);
    }
    if (total == 0) return;
    const auto block = allocate(static_cast<size_t>(total));
    int64_t offset = 0;
    for (size_t b = 0; b < fresh_.size(); ++b) {
      if (!fresh_[b]) continue;
      program().blobs[b].data = block.get() + offset;
      offset += round_up(program().blobs[b].bytes, kAlignment);
    }
    program().owners.push_back(block);
  }

  std::byte* memory(int blob) { return const_cast<std::byte*>(program().blobs[blob].data); }

  void run_jobs(const std::vector<PackJob>& jobs) {
    if (jobs.empty()) return;
    if (options_.progress) options_.progress("packing weights", 0);
    std::atomic<size_t> next{0};
    std::exception_ptr failure;
    std::atomic<bool> failed{false};
    const auto work = [&] {
      for (size_t j = next++; j < jobs.size() && !failed; j = next++) {
        try {
          const Instruction& in = program().instructions[jobs[j].instruction];
          in.family->pack(in.row, in.problem.data(), jobs[j].step->constants, memory(in.packed));
        } catch (...) {
          if (!failed.exchange(true)) failure = std::current_exception();
        }
      }
    };
    std::vector<std::thread> helpers;
    for (int t = 1; t < std::min(target_.threads, cpu_info().cores); ++t) {
      helpers.emplace_back(work);
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
  }

  const kernels::Target target_;
  Selector& selector_;
  const CompileOptions& options_;
  Lowered lowered_;
  Compiled result_;
  std::map<Instance, int> instances_;
  std::vector<Storage> storages_;
  std::vector<std::pair<int, Instance>> constants_;  // blob index, what it holds
  std::vector<bool> fresh_;                          // blobs that must be filled here
  std::vector<Operands> operands_;
  std::vector<PackJob> pack_jobs_;
};

}  // namespace

Compiled compile(std::shared_ptr<ir::Graph> graph, const kernels::Target& target,
                 Selector& selector, const CompileOptions& options) {
  return Compiler(std::move(graph), target, selector, options).compile();
}

}  // namespace stretto::runtime
