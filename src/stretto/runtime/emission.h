// What the steps of compile() work on, one after the other. Internal to compile.cc, emit.cc,
// place.cc and fill_blobs.cc.
#pragma once

#include <fmt/format.h>

#include <climits>
#include <utility>
#include <vector>

#include "stretto/kernels/packing.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/costs.h"
#include "stretto/runtime/layout.h"

namespace stretto::runtime {

// Where a value in one layout lies: in memory of its own, or within another storage.
struct Storage {
  int64_t bytes = 0;
  int parent = -1;           // index of the storage this one lies in; -1: its own memory
  int64_t offset_bytes = 0;  // within the parent
  Place place = Place::kArena;
  int32_t index = 0;  // of the constant, input or output
  bool made_by_kernel = false;
};

// Indices of storages.
struct Operands {
  std::vector<int> inputs, outputs;
};

// A blob that holds a constant as the program's operand.
struct ConstantBlob {
  int blob;
  ir::ValueId value;
  Layout layout;
};

// An instruction whose kernel may want its step's constants in packed form.
struct PackJob {
  int instruction;
  const Step* step;
};

struct Emission {
  const Lowered& lowered;
  Compiled compiled;
  std::vector<Operands> operands;  // parallel to the program's instructions
  std::vector<Storage> storages;
  std::vector<ConstantBlob> constants;
  std::vector<PackJob> pack_jobs;

  const ir::Graph& graph() const { return *lowered.graph; }
  Program& program() { return compiled.program; }

  // The storage whose memory `storage` lies in, and the offset there in bytes.
  std::pair<int, int64_t> root_of(int storage) const {
    int64_t offset = 0;
    while (storages[storage].parent >= 0) {
      offset += storages[storage].offset_bytes;
      storage = storages[storage].parent;
    }
    return {storage, offset};
  }
};

// Blob::form from what kernels::packing_text() says.
inline std::string blob_form(const std::string& packing) {
  return fmt::format("{}/{}", kernels::architecture(), packing);
}

// Turns placed steps into instructions over storages. Locations are open still: a copy's hold its
// offset within the operand, all others nothing. Blobs of constants are named, not filled.
Emission emit(const Lowered& lowered, const std::vector<PlacedStep>& placed,
              const NodeSelector& nodes, const kernels::Target& target);

// Plans the arena and fixes every location and scratch offset.
void place(Emission& emission);

// Packs weights and writes constants, except what `options.packed` has already.
void fill_blobs(Emission& emission, const CompileOptions& options);

}  // namespace stretto::runtime
