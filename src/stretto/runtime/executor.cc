#include "stretto/runtime/executor.h"

#include <cstring>

#include "stretto/base/dealer.h"
#include "stretto/base/interrupt.h"
#include "stretto/runtime/dealt_steps.h"
#include "stretto/runtime/interpreted.h"

namespace stretto::runtime {
namespace {

// A caller's tensor: used where it is when aligned, else through memory behind the activations.
struct Face {
  int64_t bytes = 0;
  size_t alignment = kAlignment;  // that kernels rely on
  int64_t staging = -1;           // offset of that memory; -1: always used where it is
  void* current = nullptr;
};

// An operand that moves with the caller's pointers.
struct Patch {
  const void** slot;
  bool output;
  int index;
  int64_t offset;
};

// An operand in the arena.
struct ArenaSlot {
  size_t slot;
  int64_t offset;
};

bool aligned(const void* pointer, size_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

}  // namespace

struct Executor::State {
  State(const Program& p, bool has_team)
      : program(p), steps(deal(p)), dealer(p.target.threads, units_of(steps), has_team) {}

  const Program& program;
  const std::vector<DealtStep> steps;
  Dealer dealer;
  ThreadTeam nobody{1};  // the team of runs alone
  ArenaShelf* shelf = nullptr;
  int64_t arena_bytes = 0;  // with staging
  ArenaShelf::Arena arena;
  const std::byte* resolved = nullptr;  // the arena that slots point to
  std::vector<ArenaSlot> arena_slots;
  std::vector<Face> inputs, outputs;
  std::vector<const void*> slots;             // all operands, instruction after instruction
  std::vector<std::pair<int, int>> operands;  // per instruction: first slot, first output slot
  std::vector<Patch> patches;
  std::vector<double> step_seconds;  // of a timed run

  void execute(const DealtStep& step, Worker worker) {
    const Instruction& in = program.instructions[step.instruction];
    const auto [first, first_output] = operands[step.instruction];
    const std::span<const void*> from(slots.data() + first, in.inputs.size());
    const std::span<const void*> to(slots.data() + first_output, in.outputs.size());
    if (in.family != nullptr) {
      const kernels::Args args{
          .inputs = from,
          .outputs = {const_cast<void* const*>(reinterpret_cast<const void* const*>(to.data())),
                      to.size()},
          .packed = in.packed < 0 ? nullptr : program.blobs[in.packed].data,
          .scratch = arena.memory.get() + in.scratch_offset};
      worker.phase = step.phase;
      in.family->run(in.row, in.problem.data(), args, worker);
    } else if (in.copy_bytes > 0) {
      const Range part = split(in.copy_bytes, worker, 4096);
      std::memcpy(static_cast<std::byte*>(const_cast<void*>(to[0])) + part.begin,
                  static_cast<const std::byte*>(from[0]) + part.begin,
                  static_cast<size_t>(part.end - part.begin));
    }
  }

  // By the caller alone, because references split their work over the team themselves.
  void interpret(int i, ThreadTeam& team) {
    const Instruction& in = program.instructions[i];
    const auto [first, first_output] = operands[i];
    run_interpreted(*in.interpreted, team, {slots.data() + first, in.inputs.size()},
                    {slots.data() + first_output, in.outputs.size()});
  }
};

Executor::Executor(const Program& program, ArenaShelf* shelf, bool has_team)
    : state_(std::make_unique<State>(program, has_team)) {
  State& s = *state_;
  s.shelf = shelf;
  const auto place = [&](int64_t bytes) {
    constexpr auto kStep = static_cast<int64_t>(kAlignment);
    const int64_t at = (s.arena_bytes + kStep - 1) / kStep * kStep;
    s.arena_bytes = at + bytes;
    return at;
  };
  place(program.arena_bytes);
  // Kernels that append to an input, and read it, need no alignment.
  std::vector<bool> appended(program.inputs.size());
  for (const Instruction& in : program.instructions) {
    for (const Location& at : in.outputs) {
      if (at.place == Place::kInput) appended[static_cast<size_t>(at.index)] = true;
    }
  }
  const auto faces = [&](const std::vector<TensorSpec>& specs, std::vector<Face>& list,
                         const std::vector<bool>& direct, bool read) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const size_t element = dtype_bytes(specs[i].dtype);
      Face face{.bytes = element_count(specs[i].shape) * static_cast<int64_t>(element),
                .alignment = read ? element : kAlignment};
      if (direct.empty() || !direct[i]) face.staging = place(face.bytes);
      list.push_back(face);
    }
  };
  faces(program.inputs, s.inputs, appended, true);
  faces(program.outputs, s.outputs, {}, false);
  if (shelf == nullptr) s.arena = {allocate(static_cast<size_t>(s.arena_bytes)), s.arena_bytes};
  size_t total = 0;
  for (const Instruction& in : program.instructions) total += in.inputs.size() + in.outputs.size();
  s.slots.reserve(total);
  for (const Instruction& in : program.instructions) {
    const int first = static_cast<int>(s.slots.size());
    const auto resolve = [&](const Location& at) {
      switch (at.place) {
        case Place::kArena:
          s.arena_slots.push_back({s.slots.size(), at.offset});
          s.slots.push_back(nullptr);
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

int64_t executor_bytes(const Program& program) {
  int64_t bytes = program.arena_bytes;
  for (const auto* specs : {&program.inputs, &program.outputs}) {
    for (const TensorSpec& spec : *specs) {
      bytes += element_count(spec.shape) * static_cast<int64_t>(dtype_bytes(spec.dtype)) +
               static_cast<int64_t>(kAlignment);
    }
  }
  return bytes;
}

void Executor::resolve_arena() {
  State& s = *state_;
  const std::byte* arena = s.arena.memory.get();
  if (arena == s.resolved) return;
  for (const ArenaSlot& at : s.arena_slots) s.slots[at.slot] = arena + at.offset;
  s.resolved = arena;
}

void Executor::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  run(inputs, outputs, {}, false);
}

void Executor::run_alone(std::span<const void* const> inputs, std::span<void* const> outputs) {
  run(inputs, outputs, {}, true);
}

void Executor::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                         std::span<double> seconds) {
  run(inputs, outputs, seconds, false);
}

void Executor::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::span<double> seconds, bool alone) {
  State& s = *state_;
  struct Lease {  // of the shelf's memory, for this run
    explicit Lease(State& state) : s(state) {
      if (s.shelf != nullptr) s.arena = s.shelf->take(s.arena_bytes);
    }
    ~Lease() {
      if (s.shelf != nullptr) s.shelf->put(std::move(s.arena));
    }
    State& s;
  } lease(s);
  resolve_arena();
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    Face& face = s.inputs[i];
    if (aligned(inputs[i], face.alignment) || face.staging < 0) {
      face.current = const_cast<void*>(inputs[i]);
    } else {
      face.current = s.arena.memory.get() + face.staging;
      std::memcpy(face.current, inputs[i], static_cast<size_t>(face.bytes));
    }
  }
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    Face& face = s.outputs[i];
    const bool direct = aligned(outputs[i], face.alignment);
    face.current = direct ? outputs[i] : s.arena.memory.get() + face.staging;
  }
  for (const Patch& patch : s.patches) {
    const Face& face = patch.output ? s.outputs[patch.index] : s.inputs[patch.index];
    *patch.slot = static_cast<std::byte*>(face.current) + patch.offset;
  }

  if (!seconds.empty()) s.step_seconds.assign(s.steps.size(), 0);
  const auto unit = [&](int step, const Worker& worker) { s.execute(s.steps[step], worker); };
  const auto check = [] { check_interrupt(); };
  const auto interpret = [&](int step) {
    s.interpret(s.steps[step].instruction, alone ? s.nobody : s.dealer.team());
  };
  const Dealer::Job job{.unit = unit,
                        .alone = interpret,
                        .check = check,
                        .seconds = seconds.empty() ? std::span<double>() : s.step_seconds};
  alone ? s.dealer.run_alone(job) : s.dealer.run(job);
  for (size_t i = 0; i < s.steps.size() && !seconds.empty(); ++i) {
    seconds[s.steps[i].instruction] += s.step_seconds[i];
  }

  for (size_t i = 0; i < s.outputs.size(); ++i) {
    const Face& face = s.outputs[i];
    if (face.current != outputs[i]) {
      std::memcpy(outputs[i], face.current, static_cast<size_t>(face.bytes));
    }
  }
}

}  // namespace stretto::runtime
