#include <algorithm>

#include "stretto/base/interrupt.h"
#include "stretto/runtime/emission.h"
#include "stretto/runtime/memory_plan.h"

namespace stretto::runtime {
namespace {

// A piece of the arena: of a storage, or an instruction's scratch memory.
struct Claim {
  Lifetime life;
  int storage = -1, instruction = -1;
};

// If a kernel allows it, its result is written over an input that no later instruction reads, whose
// cache lines have just been read. Mostly these are residual connections.
void overwrite_inputs(Emission& emission) {
  const int count = static_cast<int>(emission.operands.size());
  std::vector<int> first(emission.storages.size(), INT_MAX), last(emission.storages.size(), -1);
  for (int i = 0; i < count; ++i) {
    for (const auto* list : {&emission.operands[i].inputs, &emission.operands[i].outputs}) {
      for (int s : *list) {
        const int root = emission.root_of(s).first;
        first[root] = std::min(first[root], i);
        last[root] = i;
      }
    }
  }
  for (int i = 0; i < count; ++i) {
    check_interrupt();
    const Instruction& in = emission.program().instructions[i];
    const int which = in.family ? in.family->in_place(in.row, in.problem.data()) : -1;
    if (which < 0) continue;
    const Operands& operands = emission.operands[i];
    const int from = operands.inputs[which], to = operands.outputs[0];
    const auto [memory, offset] = emission.root_of(from);
    Storage& result = emission.storages[to];
    const bool alone =
        std::count_if(operands.inputs.begin(), operands.inputs.end(), [&, memory = memory](int s) {
          return emission.root_of(s).first == memory;
        }) == 1;
    if (!alone || last[memory] != i || emission.storages[memory].place != Place::kArena ||
        result.parent >= 0 || result.place != Place::kArena || first[to] != i ||
        result.bytes != emission.storages[from].bytes)
      continue;
    result.parent = memory;  // its root, so that chains stay flat
    result.offset_bytes = offset;
    last[memory] = last[to];
  }
}

std::vector<Claim> storage_claims(const Emission& emission) {
  std::vector<Claim> claims(emission.storages.size());
  for (size_t s = 0; s < claims.size(); ++s) {
    claims[s] = {{emission.storages[s].bytes, INT_MAX, -1}, static_cast<int>(s)};
  }
  const int count = static_cast<int>(emission.operands.size());
  for (int i = 0; i < count; ++i) {
    for (const auto* list : {&emission.operands[i].inputs, &emission.operands[i].outputs}) {
      for (int s : *list) {
        Lifetime& life = claims[emission.root_of(s).first].life;
        life.first = std::min(life.first, i);
        life.last = std::max(life.last, i);
      }
    }
  }
  std::erase_if(claims, [&](const Claim& claim) {
    const Storage& storage = emission.storages[claim.storage];
    return storage.parent >= 0 || storage.place != Place::kArena || claim.life.last < 0;
  });
  return claims;
}

void add_scratch_claims(const Program& program, std::vector<Claim>& claims) {
  const int count = static_cast<int>(program.instructions.size());
  for (int i = 0; i < count; ++i) {
    const Instruction& in = program.instructions[i];
    if (in.family == nullptr) continue;
    const auto bytes = static_cast<int64_t>(in.family->scratch_bytes(in.row, in.problem.data()));
    if (bytes > 0) claims.push_back({{bytes, i, i}, -1, i});
  }
}

}  // namespace

void place(Emission& emission) {
  Program& program = emission.program();
  overwrite_inputs(emission);
  std::vector<Claim> claims = storage_claims(emission);
  add_scratch_claims(program, claims);
  std::vector<Lifetime> lives;
  for (const Claim& claim : claims) lives.push_back(claim.life);
  const MemoryPlan plan = plan_memory(lives, kAlignment);
  program.arena_bytes = plan.total_bytes;

  std::vector<int64_t> arena_offset(emission.storages.size(), 0);
  for (size_t c = 0; c < claims.size(); ++c) {
    if (claims[c].storage >= 0) {
      arena_offset[claims[c].storage] = plan.offsets[c];
    } else {
      program.instructions[claims[c].instruction].scratch_offset = plan.offsets[c];
    }
  }
  const auto locate = [&](const std::vector<int>& storages, std::vector<Location>& locations) {
    locations.resize(storages.size());  // copies already hold an offset within the operand
    for (size_t o = 0; o < storages.size(); ++o) {
      const auto [root, offset] = emission.root_of(storages[o]);
      const Storage& storage = emission.storages[root];
      Location& location = locations[o];
      location.place = storage.place;
      location.index = storage.index;
      location.offset += offset;
      if (storage.place == Place::kArena) location.offset += arena_offset[root];
    }
  };
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    check_interrupt();
    locate(emission.operands[i].inputs, program.instructions[i].inputs);
    locate(emission.operands[i].outputs, program.instructions[i].outputs);
  }
}

}  // namespace stretto::runtime
