#include "stretto/runtime/executor.h"

#include <atomic>
#include <cstring>
#include <exception>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/interpreter.h"

namespace stretto::runtime {
namespace {

// A caller's tensor: used where it is when aligned, else through `staging`.
struct Face {
  int64_t bytes = 0;
  std::shared_ptr<std::byte[]> staging;
  void* current = nullptr;
};

// An operand that moves with the caller's pointers.
struct Patch {
  const void** slot;
  bool output;
  int index;
  int64_t offset;
};

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0; }

void run_interpreted(const InterpretedNode& node, ThreadTeam& team, std::span<const void*> inputs,
                     std::span<const void*> outputs) {
  const ir::Graph& graph = node.graph;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::Value& value = graph.value(graph.inputs[i]);
    tensors.emplace_back(value.dtype, *value.shape, inputs[i], nullptr);
  }
  const std::vector<Tensor> results =
      ir::interpret(graph, tensors, {.float64 = false, .team = &team});
  for (size_t i = 0; i < results.size(); ++i) {
    std::memcpy(const_cast<void*>(outputs[i]), results[i].data(), results[i].bytes());
  }
}

}  // namespace

struct Executor::State {
  explicit State(const Program& p) : program(p), team(p.target.threads) {}

  const Program& program;
  ThreadTeam team;
  std::shared_ptr<std::byte[]> arena;
  std::vector<Face> inputs, outputs;
  std::vector<const void*> slots;             // all operands, instruction after instruction
  std::vector<std::pair<int, int>> operands;  // per instruction: first slot, first output slot
  std::vector<Patch> patches;

  void execute(int i, const Worker& worker) {
    const Instruction& in = program.instructions[i];
    const auto [first, first_output] = operands[i];
    const std::span<const void*> from(slots.data() + first, in.inputs.size());
    const std::span<const void*> to(slots.data() + first_output, in.outputs.size());
    if (in.family != nullptr) {
      const kernels::Args args{
          .inputs = from,
          .outputs = {const_cast<void* const*>(reinterpret_cast<const void* const*>(to.data())),
                      to.size()},
          .packed = in.packed < 0 ? nullptr : program.blobs[in.packed].data,
          .scratch = arena.get() + in.scratch_offset};
      in.family->run(in.row, in.problem.data(), args, worker);
    } else if (in.copy_bytes > 0) {
      const Range part = split(in.copy_bytes, worker, 4096);
      std::memcpy(static_cast<std::byte*>(const_cast<void*>(to[0])) + part.begin,
                  static_cast<const std::byte*>(from[0]) + part.begin,
                  static_cast<size_t>(part.end - part.begin));
    }
  }

  // By the caller alone, because references split their work over the team themselves.
  void interpret(int i) {
    const Instruction& in = program.instructions[i];
    const auto [first, first_output] = operands[i];
    run_interpreted(*in.interpreted, team, {slots.data() + first, in.inputs.size()},
                    {slots.data() + first_output, in.outputs.size()});
  }

  bool interpreted(int i) const { return program.instructions[i].interpreted != nullptr; }

  // Instructions from `begin` to the next interpreted one, in one run of the team. Returns where
  // that is. Throws when the run is interrupted.
  int run_kernels(int begin, std::span<double> seconds) {
    int next = begin + 1;
    const int count = static_cast<int>(program.instructions.size());
    while (next < count && !interpreted(next)) ++next;
    // All threads must leave before the same instruction. Whoever reads `end` at the top of the
    // loop has passed the barrier after the instruction in which it was set.
    std::atomic<int> end{next};
    std::exception_ptr failure;
    team.run([&](const Worker& worker) {
      for (int i = begin; i < end.load(std::memory_order_relaxed); ++i) {
        const double start = seconds.empty() || worker.index != 0 ? 0 : now_s();
        execute(i, worker);
        if (worker.index == 0 && !failure) {
          try {
            check_interrupt();
          } catch (...) {
            failure = std::current_exception();
            end.store(i + 1, std::memory_order_relaxed);
          }
        }
        worker.sync();
        if (!seconds.empty() && worker.index == 0) seconds[i] += now_s() - start;
      }
    });
    if (failure) std::rethrow_exception(failure);
    return next;
  }
};

Executor::Executor(const Program& program) : state_(std::make_unique<State>(program)) {
  State& s = *state_;
  s.arena = allocate(static_cast<size_t>(program.arena_bytes));
  const auto faces = [](const std::vector<TensorSpec>& specs, std::vector<Face>& list) {
    for (const TensorSpec& spec : specs) {
      Face face{.bytes = element_count(spec.shape) * static_cast<int64_t>(dtype_bytes(spec.dtype))};
      face.staging = allocate(static_cast<size_t>(face.bytes));
      list.push_back(std::move(face));
    }
  };
  faces(program.inputs, s.inputs);
  faces(program.outputs, s.outputs);
  size_t total = 0;
  for (const Instruction& in : program.instructions) total += in.inputs.size() + in.outputs.size();
  s.slots.reserve(total);
  for (const Instruction& in : program.instructions) {
    const int first = static_cast<int>(s.slots.size());
    const auto resolve = [&](const Location& at) {
      switch (at.place) {
        case Place::kArena:
          s.slots.push_back(s.arena.get() + at.offset);
          return;
        case Place::kConstant:
          s.slots.push_back(program.blobs[at.index].data + at.offset);
          return;
        case Place::kInput:
        case Place::kOutput:
          s.slots.push_back(nullptr);
          s.patches.push_back({&s.slots.back(), at.place == Place::kOutput, at.index, at.offset});
      }
    };
    for (const Location& at : in.inputs) resolve(at);
    const int first_output = static_cast<int>(s.slots.size());
    for (const Location& at : in.outputs) resolve(at);
    s.operands.emplace_back(first, first_output);
  }
}

Executor::~Executor() = default;

void Executor::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  run_timed(inputs, outputs, {});
}

void Executor::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                         std::span<double> seconds) {
  State& s = *state_;
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    Face& face = s.inputs[i];
    if (aligned(inputs[i])) {
      face.current = const_cast<void*>(inputs[i]);
    } else {
      std::memcpy(face.staging.get(), inputs[i], static_cast<size_t>(face.bytes));
      face.current = face.staging.get();
    }
  }
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    s.outputs[i].current = aligned(outputs[i]) ? outputs[i] : s.outputs[i].staging.get();
  }
  for (const Patch& patch : s.patches) {
    const Face& face = patch.output ? s.outputs[patch.index] : s.inputs[patch.index];
    *patch.slot = static_cast<std::byte*>(face.current) + patch.offset;
  }

  const int count = static_cast<int>(s.program.instructions.size());
  for (int begin = 0; begin < count;) {
    if (s.interpreted(begin)) {
      const double start = now_s();
      s.interpret(begin);
      if (!seconds.empty()) seconds[begin] += now_s() - start;
      ++begin;
    } else {
      begin = s.run_kernels(begin, seconds);
    }
    check_interrupt();
  }

  for (size_t i = 0; i < s.outputs.size(); ++i) {
    const Face& face = s.outputs[i];
    if (face.current != outputs[i]) {
      std::memcpy(outputs[i], face.current, static_cast<size_t>(face.bytes));
    }
  }
}

}  // namespace stretto::runtime
