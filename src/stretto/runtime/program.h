// What a session executes: a flat list of instructions over one arena, one block of packed weights
// and the caller's inputs and outputs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "stretto/ir/graph.h"
#include "stretto/kernels/family.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

enum class Place : uint8_t { kArena, kConstant, kInput, kOutput };

// Where a tensor lies: byte `offset` in the arena, or within constant, input or output `index`.
struct Location {
  Place place = Place::kArena;
  int32_t index = 0;
  int64_t offset = 0;
};

// Packed weights or a constant operand: aligned bytes, found again in an artefact by `key`; without
// a key they are not stored in one. `form` says how they are arranged (kernels/packing.h), the
// architecture first: bytes of another form are of no use.
struct Blob {
  std::string key;
  std::string form;
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

// A node without a kernel, run by its reference: a graph of its own with one node.
struct InterpretedNode {
  ir::Graph graph;
};

struct Instruction {
  const kernels::Family* family = nullptr;  // null: interpreted, or a plain copy
  int row = 0;
  std::vector<std::byte> problem;
  std::vector<Location> inputs, outputs;
  int32_t packed = -1;         // index of the blob with the packed weights
  int64_t scratch_offset = 0;  // in the arena
  int64_t copy_bytes = 0;      // of a plain copy from inputs[0] to outputs[0]
  std::shared_ptr<const InterpretedNode> interpreted;
  std::string node, op;  // for people
};

struct Program {
  kernels::Target target;
  std::vector<TensorSpec> inputs, outputs;
  std::vector<Instruction> instructions;
  int64_t arena_bytes = 0;
  // Room for real tokens in a program that works on those only (runtime/lengths.h); 0: it works on
  // padded samples.
  int64_t rows = 0;
  std::vector<Blob> blobs;
  std::vector<std::shared_ptr<const void>> owners;  // keep the blobs' memory alive

  int64_t weight_bytes() const {
    int64_t sum = 0;
    for (const Blob& blob : blobs) sum += blob.bytes;
    return sum;
  }
};

}  // namespace stretto::runtime
