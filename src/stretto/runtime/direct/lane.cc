#include "stretto/runtime/direct/lane.h"

#include <cstring>

#include "stretto/base/interrupt.h"
#include "stretto/runtime/interpreted.h"
#include "stretto/tensor/layout.h"

namespace stretto::runtime::direct {
namespace {

bool aligned(const void* pointer, size_t alignment = kAlignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

int64_t bytes_of(const TensorSpec& spec) {
  return element_count(spec.shape) * static_cast<int64_t>(dtype_bytes(spec.dtype));
}

bool overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + static_cast<uintptr_t>(b_bytes) && y < x + static_cast<uintptr_t>(a_bytes);
}

// Bytes of every argument that the program reads, and what it has to be aligned to.
template <typename F>
void each_argument(const Prepared& p, F&& f) {
  for (size_t i = 0; i < p.argument_of.size(); ++i) {
    const TensorSpec& spec = p.program.inputs[i];
    f(p.argument_of[i], bytes_of(spec), dtype_bytes(spec.dtype));
  }
  for (size_t b = 0; b < p.argument_of_blob.size(); ++b) {
    if (p.argument_of_blob[b] >= 0) f(p.argument_of_blob[b], p.program.blobs[b].bytes, kAlignment);
  }
  for (const Packing& packing : p.packings) {
    for (const ArgumentTensor& from : packing.from) {
      if (from.argument < 0) continue;
      f(from.argument, static_cast<int64_t>(from.constant.bytes()), kAlignment);
    }
  }
}

}  // namespace

void Lane::reserve(int64_t bytes) {
  if (bytes <= memory_bytes_) return;
  memory_.reset();
  memory_bytes_ = 0;
  memory_ = allocate(static_cast<size_t>(bytes));
  memory_bytes_ = bytes;
}

// Decides which addresses kernels use, and copies inputs that they cannot read where they are.
void Lane::place(const Prepared& p, std::span<const void* const> inputs,
                 std::span<void* const> outputs) {
  const auto& specs = p.program.outputs;
  int64_t end = round_up(p.lane_bytes, kAlignment);
  inputs_.assign(inputs.begin(), inputs.end());
  outputs_.assign(outputs.begin(), outputs.end());
  each_argument(p, [&](int i, int64_t bytes, size_t alignment) {
    if (!aligned(inputs[i], alignment)) end += round_up(bytes, kAlignment);
  });
  for (size_t o = 0; o < outputs.size(); ++o) {
    const int64_t bytes = bytes_of(specs[o]);
    bool direct = aligned(outputs[o]);
    each_argument(p, [&](int i, int64_t size, size_t) {
      direct = direct && !overlap(outputs[o], bytes, inputs[i], size);
    });
    for (size_t other = 0; other < o; ++other) {
      direct = direct && !overlap(outputs[o], bytes, outputs[other], bytes_of(specs[other]));
    }
    if (!direct) {
      outputs_[o] = nullptr;
      end += round_up(bytes, kAlignment);
    }
  }
  reserve(end);
  end = round_up(p.lane_bytes, kAlignment);
  each_argument(p, [&](int i, int64_t bytes, size_t alignment) {
    if (aligned(inputs_[i], alignment)) return;
    std::memcpy(memory_.get() + end, inputs[i], static_cast<size_t>(bytes));
    inputs_[i] = memory_.get() + end;
    end += round_up(bytes, kAlignment);
  });
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs_[o] != nullptr) continue;
    outputs_[o] = memory_.get() + end;
    end += round_up(bytes_of(specs[o]), kAlignment);
  }
}

void Lane::resolve(const Prepared& p) {
  slots_.clear();
  first_.clear();
  const auto add = [&](const Location& at) {
    const auto* base = [&]() -> const void* {
      switch (at.place) {
        case Place::kArena:
          return memory_.get();
        case Place::kConstant: {
          const int argument = p.argument_of_blob[at.index];
          return argument < 0 ? p.program.blobs[at.index].data : inputs_[argument];
        }
        case Place::kInput:
          return inputs_[p.argument_of[at.index]];
        case Place::kOutput:
          return outputs_[at.index];
      }
      return nullptr;
    }();
    slots_.push_back(static_cast<const std::byte*>(base) + at.offset);
  };
  for (const Instruction& in : p.program.instructions) {
    first_.push_back(slots_.size());
    for (const Location& at : in.inputs) add(at);
    for (const Location& at : in.outputs) add(at);
  }
}

void Lane::pack(const Prepared& p) {
  for (const Packing& packing : p.packings) {
    const Instruction& in = p.program.instructions[packing.instruction];
    std::vector<Tensor> constants;
    for (const ArgumentTensor& from : packing.from) {
      const Tensor& t = from.constant;
      constants.push_back(
          from.argument < 0 ? t : Tensor(t.dtype(), t.shape(), inputs_[from.argument], nullptr));
    }
    in.family->pack(in.row, in.problem.data(), constants, memory_.get() + packing.offset);
  }
}

const std::byte* Lane::packed(const Prepared& p, size_t instruction) const {
  for (const Packing& packing : p.packings) {
    if (packing.instruction == static_cast<int>(instruction)) {
      return memory_.get() + packing.offset;
    }
  }
  const int blob = p.program.instructions[instruction].packed;
  return blob < 0 ? nullptr : p.program.blobs[blob].data;
}

void Lane::execute(const Prepared& p, size_t i, const Worker& worker) {
  const Instruction& in = p.program.instructions[i];
  const void** first = slots_.data() + first_[i];
  const void** to = first + in.inputs.size();
  if (in.family != nullptr) {
    const kernels::Args args{
        .inputs = {first, in.inputs.size()},
        .outputs = {const_cast<void* const*>(reinterpret_cast<const void* const*>(to)),
                    in.outputs.size()},
        .packed = packed(p, i),
        .scratch = memory_.get() + in.scratch_offset};
    kernels::run_shares(*in.family, in.row, in.problem.data(), args, worker);
  } else if (in.copy_bytes > 0) {
    const Range part = split(in.copy_bytes, worker, 4096);
    std::memcpy(static_cast<std::byte*>(const_cast<void*>(to[0])) + part.begin,
                static_cast<const std::byte*>(first[0]) + part.begin,
                static_cast<size_t>(part.end - part.begin));
  }
}

void Lane::execute_all(const Prepared& p) {
  const auto& instructions = p.program.instructions;
  size_t i = 0;
  while (i < instructions.size()) {
    check_interrupt();
    if (instructions[i].interpreted != nullptr) {
      const Instruction& in = instructions[i];
      const void** first = slots_.data() + first_[i];
      run_interpreted(*in.interpreted, team_, {first, in.inputs.size()},
                      {first + in.inputs.size(), in.outputs.size()});
      ++i;
    } else if (p.program.target.threads == 1) {
      execute(p, i++, Worker{});
    } else {
      size_t end = i;
      while (end < instructions.size() && instructions[end].interpreted == nullptr) ++end;
      team_.run([&](const Worker& worker) {
        for (size_t k = i; k < end; ++k) {
          if (k > i) worker.sync();
          execute(p, k, worker);
        }
      });
      i = end;
    }
  }
}

void Lane::run(const Prepared& p, std::span<const void* const> inputs,
               std::span<void* const> outputs) {
  place(p, inputs, outputs);
  resolve(p);
  pack(p);
  execute_all(p);
  for (size_t o = 0; o < outputs.size(); ++o) {
    const auto bytes = static_cast<size_t>(bytes_of(p.program.outputs[o]));
    if (outputs_[o] != outputs[o] && bytes > 0) std::memcpy(outputs[o], outputs_[o], bytes);
  }
}

std::unique_ptr<Lane> LanePool::acquire() {
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return !free_.empty() || made_ < limit_; });
    if (!free_.empty()) {
      auto lane = std::move(free_.back());
      free_.pop_back();
      return lane;
    }
    ++made_;
  }
  try {
    return std::make_unique<Lane>(threads_);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --made_;
    freed_.notify_one();
    throw;
  }
}

void LanePool::release(std::unique_ptr<Lane> lane) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(lane));
  }
  freed_.notify_one();
}

void LanePool::clear() {
  const std::lock_guard lock(mutex_);
  made_ -= static_cast<int>(free_.size());
  free_.clear();
}

}  // namespace stretto::runtime::direct
