#include "stretto/kernels/workbench.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/flush.h"
#include "stretto/base/interrupt.h"

namespace stretto::kernels {
namespace {

// What is read to push everything else out of the last-level cache, where weights cannot be
// flushed.
int64_t other_weights_bytes() {
  constexpr int64_t kLeast = int64_t{48} << 20, kMost = int64_t{512} << 20;
  return std::clamp(cpu_info().l3_bytes * 5 / 4, kLeast, kMost);
}

// SplitMix64 (Steele, Lea and Flood 2014): far less work per number than the Mersenne twister,
// because tuning fills tensors with millions of them.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Uniform in [-1, 1).
  float uniform() { return static_cast<float>(static_cast<int64_t>(next()) >> 40) * 0x1p-23f; }

 private:
  uint64_t state_;
};

// Storage of one tensor of the problem.
struct Memory {
  TensorInfo info;
  int64_t elements = 0;
  std::shared_ptr<std::byte[]> data;
  size_t bytes() const { return static_cast<size_t>(elements) * dtype_bytes(info.dtype); }
};

struct Prepared {
  std::shared_ptr<std::byte[]> packed, scratch;
};

Memory make_memory(const TensorInfo& info, int block) {
  Memory memory{.info = info, .elements = storage_elements(info.shape, info.layout, block)};
  memory.data = allocate(static_cast<size_t>(memory.elements) * dtype_bytes(info.dtype));
  return memory;
}

void fill(Memory& memory, Random& random, float scale) {
  switch (memory.info.dtype) {
    case DType::kFloat32: {
      auto* values = reinterpret_cast<float*>(memory.data.get());
      for (int64_t i = 0; i < memory.elements; ++i) values[i] = scale * random.uniform();
      return;
    }
    case DType::kFloat64: {
      auto* values = reinterpret_cast<double*>(memory.data.get());
      for (int64_t i = 0; i < memory.elements; ++i) values[i] = scale * random.uniform();
      return;
    }
    case DType::kInt64: {
      auto* values = reinterpret_cast<int64_t*>(memory.data.get());
      for (int64_t i = 0; i < memory.elements; ++i)
        values[i] = static_cast<int64_t>(random.next() % 4);
      return;
    }
    case DType::kInt32: {
      auto* values = reinterpret_cast<int32_t*>(memory.data.get());
      for (int64_t i = 0; i < memory.elements; ++i)
        values[i] = static_cast<int32_t>(random.next() % 4);
      return;
    }
    default: {
      auto* values = reinterpret_cast<uint8_t*>(memory.data.get());
      const size_t bytes = static_cast<size_t>(memory.elements) * dtype_bytes(memory.info.dtype);
      for (size_t i = 0; i < bytes; ++i) values[i] = static_cast<uint8_t>(random.next() % 2);
    }
  }
}

// Weights shrink with the length of the sum they enter, so that outputs stay of order one.
float constant_scale(const TensorInfo& info) {
  if (info.shape.size() < 2 || info.shape[0] == 0) return 1;
  const double fan_in = static_cast<double>(element_count(info.shape)) / info.shape[0];
  return static_cast<float>(std::sqrt(3.0 / std::max(1.0, fan_in)));
}

}  // namespace

struct Workbench::State {
  const Family& family;
  std::vector<std::byte> problem;
  Signature signature;
  std::vector<Memory> inputs, constants, outputs;
  std::map<int, Prepared> prepared;
  std::shared_ptr<std::byte[]> others;
  std::unique_ptr<ThreadTeam> own_team;
  ThreadTeam* team = nullptr;
  int block = 1;

  // Caches as a layer meets them inside a network: its inputs were just written, by all threads,
  // and its weights have been pushed out by those of all the other layers since the last run.
  void as_in_a_network(int row) {
    const auto touch = [](const std::byte* data, Range range) {
      int sum = 0;
      for (int64_t i = range.begin; i < range.end; i += 64) sum += static_cast<int>(data[i]);
      asm volatile("" : : "r"(sum));
    };
    const Prepared& weights = prepare(row);
    const auto weight_bytes = static_cast<int64_t>(family.packed_bytes(row, problem.data()));
    const int64_t other_bytes = can_flush() ? 0 : other_weights_bytes();
    if (other_bytes > 0 && !others) others = allocate(static_cast<size_t>(other_bytes));
    const int64_t own_bytes = std::min(2 * cpu_info().l2_bytes, other_bytes);
    team->run([&](const Worker& worker) {
      if (can_flush()) {
        const Range mine = split(weight_bytes, worker, kAlignment);
        flush(weights.packed.get() + mine.begin, static_cast<size_t>(mine.end - mine.begin));
      } else {
        // Each thread's own cache, and between them the shared one.
        touch(others.get(), split(other_bytes, worker));
        touch(others.get(), {0, own_bytes});
      }
      worker.sync();
      for (const Memory& m : inputs) {
        touch(m.data.get(), split(static_cast<int64_t>(m.bytes()), worker, kAlignment));
      }
    });
  }

  const Prepared& prepare(int row) {
    auto [at, fresh] = prepared.try_emplace(row);
    if (fresh) {
      std::vector<Tensor> tensors;
      for (const Memory& m : constants) {
        tensors.emplace_back(m.info.dtype, m.info.shape, m.data.get(), m.data);
      }
      at->second.packed = allocate(family.packed_bytes(row, problem.data()));
      at->second.scratch = allocate(family.scratch_bytes(row, problem.data()));
      family.pack(row, problem.data(), tensors, at->second.packed.get());
    }
    return at->second;
  }
};

Workbench::Workbench(const Family& family, const void* problem, uint64_t seed, ThreadTeam* team)
    : state_(new State{.family = family,
                       .problem = {},
                       .signature = family.signature(problem),
                       .inputs = {},
                       .constants = {},
                       .outputs = {},
                       .prepared = {},
                       .others = nullptr,
                       .own_team = nullptr}) {
  State& s = *state_;
  const auto* bytes = static_cast<const std::byte*>(problem);
  s.problem.assign(bytes, bytes + family.problem_bytes);
  const Target& target = family.target(problem);
  s.block = target.block();
  if (team == nullptr || team->size() != target.threads) {
    s.own_team = std::make_unique<ThreadTeam>(target.threads);
    team = s.own_team.get();
  }
  s.team = team;
  Random random(seed);
  for (const TensorInfo& info : s.signature.inputs) {
    s.inputs.push_back(make_memory(info, s.block));
    fill(s.inputs.back(), random, 1);
  }
  for (const TensorInfo& info : s.signature.constants) {
    s.constants.push_back(make_memory(info, s.block));
    fill(s.constants.back(), random, constant_scale(info));
  }
  for (const TensorInfo& info : s.signature.outputs) {
    s.outputs.push_back(make_memory(info, s.block));
  }
}

Workbench::~Workbench() = default;

std::span<float> Workbench::input(int i) {
  Memory& m = state_->inputs.at(i);
  return {reinterpret_cast<float*>(m.data.get()), static_cast<size_t>(m.elements)};
}

std::span<float> Workbench::constant(int i) {
  state_->prepared.clear();
  Memory& m = state_->constants.at(i);
  return {reinterpret_cast<float*>(m.data.get()), static_cast<size_t>(m.elements)};
}

void Workbench::unalign_inputs() {
  for (Memory& m : state_->inputs) {
    const size_t shift = dtype_bytes(m.info.dtype);
    const std::shared_ptr<std::byte[]> room = allocate(m.bytes() + shift);
    std::memcpy(room.get() + shift, m.data.get(), m.bytes());
    m.data = std::shared_ptr<std::byte[]>(room, room.get() + shift);
  }
}

std::span<const float> Workbench::output(int i) const {
  const Memory& m = state_->outputs.at(i);
  return {reinterpret_cast<const float*>(m.data.get()), static_cast<size_t>(m.elements)};
}

void Workbench::run(int row) { run_over(row, -1); }

bool Workbench::same_in_units(int row, int units) {
  State& s = *state_;
  const Prepared& prepared = s.prepare(row);
  const int threads = s.family.target(s.problem.data()).threads;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Memory& m : s.inputs) inputs.push_back(m.data.get());
  for (Memory& m : s.outputs) {
    std::memset(m.data.get(), 0x7f, m.bytes());
    outputs.push_back(m.data.get());
  }
  run(row);
  std::vector<std::vector<std::byte>> expected;
  for (Memory& m : s.outputs) {
    expected.emplace_back(m.data.get(), m.data.get() + m.bytes());
    std::memset(m.data.get(), 0x7f, m.bytes());
  }
  const Args args{inputs, outputs, prepared.packed.get(), prepared.scratch.get()};
  for (int phase = 0; phase < s.family.phases(row, s.problem.data()); ++phase) {
    for (int i = threads * units - 1; i >= 0; --i) {
      const int index = i % threads;
      s.family.run(row, s.problem.data(), args,
                   {.index = index,
                    .count = threads,
                    .thread = (index + 1) % threads,
                    .unit = i / threads,
                    .units = units,
                    .phase = phase});
    }
  }
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    const Memory& m = s.outputs[i];
    if (m.bytes() > 0 && std::memcmp(m.data.get(), expected[i].data(), m.bytes()) != 0)
      return false;
  }
  return true;
}

void Workbench::run_over(int row, int input) {
  State& s = *state_;
  const Prepared& prepared = s.prepare(row);
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Memory& m : s.inputs) inputs.push_back(m.data.get());
  for (const Memory& m : s.outputs) outputs.push_back(m.data.get());
  if (input >= 0) {
    std::memcpy(outputs[0], inputs[input], s.outputs[0].bytes());
    inputs[input] = outputs[0];
  }
  const Args args{inputs, outputs, prepared.packed.get(), prepared.scratch.get()};
  s.team->run(
      [&](const Worker& worker) { run_shares(s.family, row, s.problem.data(), args, worker); });
}

Difference Workbench::check(int row, int against) {
  State& s = *state_;
  const auto poison = [&] {
    for (Memory& m : s.outputs) std::memset(m.data.get(), 0x7f, m.bytes());
  };
  std::vector<std::vector<std::byte>> expected;
  check_interrupt();
  poison();
  run(against < 0 ? s.family.reference : against);
  for (const Memory& m : s.outputs) expected.emplace_back(m.data.get(), m.data.get() + m.bytes());
  poison();
  run(row);
  Difference worst = compare(expected);
  if (const int input = s.family.in_place(row, s.problem.data()); input >= 0) {
    run_over(row, input);
    const Difference over = compare(expected);
    if (over.relative_to_max > worst.relative_to_max) worst = over;
  }
  return worst;
}

Difference Workbench::compare(const std::vector<std::vector<std::byte>>& expected) const {
  const State& s = *state_;
  Difference worst;
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    const Memory& m = s.outputs[i];
    const bool padded = m.info.layout == Layout::kBlocked && m.info.shape[1] % s.block != 0;
    const int64_t channels = padded ? m.info.shape[1] : 0;
    const int64_t plane = padded ? m.info.shape[2] * m.info.shape[3] : 1;
    const int64_t blocks = padded ? (channels + s.block - 1) / s.block : 1;
    const auto real = [&](int64_t at) {
      if (!padded) return true;
      return at / (s.block * plane) % blocks * s.block + at % s.block < channels;
    };
    const auto value = [&](const std::byte* base, int64_t at) -> double {
      const std::byte* p = base + at * static_cast<int64_t>(dtype_bytes(m.info.dtype));
      if (m.info.dtype == DType::kFloat32) return *reinterpret_cast<const float*>(p);
      return Tensor(m.info.dtype, {1}, p, nullptr).as_doubles()[0];
    };
    Comparison comparison;
    for (int64_t at = 0; at < m.elements; ++at) {
      if (real(at)) comparison.add(at, value(m.data.get(), at), value(expected[i].data(), at));
    }
    const Difference difference = comparison.result();
    if (difference.relative_to_max > worst.relative_to_max) worst = difference;
  }
  return worst;
}

std::vector<double> Workbench::time(std::span<const int> rows,
                                    const tune::MeasureOptions& options) {
  // One execution first: kernels and memory are paged in and the team is awake.
  for (int row : rows) {
    check_interrupt();
    run(row);
  }
  const bool weights = !state_->constants.empty();
  std::vector<tune::Trial> trials;
  for (int row : rows) {
    tune::Trial trial{std::string(state_->family.row_name(row)), [this, row] { run(row); }};
    if (weights) trial.prepare = [this, row] { state_->as_in_a_network(row); };
    trials.push_back(std::move(trial));
  }
  return tune::measure(trials, options);
}

const Signature& Workbench::signature() const { return state_->signature; }

int Workbench::block() const { return state_->block; }

}  // namespace stretto::kernels
