// From placed steps to a program: rows selected, memory planned, weights packed.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "stretto/runtime/layout.h"
#include "stretto/runtime/program.h"
#include "stretto/runtime/select.h"
#include "stretto/runtime/shared_weights.h"

namespace stretto::runtime {

struct CompileOptions {
  std::function<void(std::string_view stage, double fraction)> progress;
  // Row names for single nodes, obeyed or an error; before any tuning cache.
  std::map<std::string, std::string> forced_nodes;
  // Blobs packed earlier, in exactly this form; consulted before packing. Null data: none.
  std::function<Blob(const std::string& key, const std::string& form)> packed;
  std::shared_ptr<const void> packed_owner;
  // Weights of other programs of the model; what is packed here is added. Null: none.
  SharedWeights* shared = nullptr;
  // Kernels whose weights are there already are preferred, unless another one is so many times as
  // fast as the best of them; 0: no kernel is preferred.
  double worth_packing = 0;
  LowerOptions lower;
};

// Why an instruction runs the kernel it runs; parallel to Program::instructions.
struct Explanation {
  std::string problem;
  Selection selection;
  double flops = 0;
};

// A blob that holds a constant as it is, as an operand of instructions.
struct OperandBlob {
  int blob = -1;
  Tensor constant;
  Layout layout = Layout::kPlain;
};

struct Compiled {
  Program program;
  std::vector<Explanation> explanations;
  // Per instruction, what its kernel's packed weights are made of.
  std::vector<std::vector<Tensor>> packed_from;
  std::vector<OperandBlob> operand_blobs;
  // How many weights were packed here, because no program of the model and no artefact had them.
  int packed = 0;
};

// Compiles an optimised graph for `target`. Selection measures within its budget.
Compiled compile(std::shared_ptr<ir::Graph> graph, const kernels::Target& target,
                 Selector& selector, const CompileOptions& options);

// What compile() would emit without measuring, as text: a line per instruction, with its kernel,
// its problem, and what it reads and writes. Programs with the same plan run alike. Takes a small
// part of compile()'s time, because no memory is planned and no weights are packed.
std::string plan(std::shared_ptr<ir::Graph> graph, const kernels::Target& target,
                 Selector& selector, const CompileOptions& options);

// The instructions that compile() would emit without measuring; they cannot be run.
Compiled outline(std::shared_ptr<ir::Graph> graph, const kernels::Target& target,
                 Selector& selector);

}  // namespace stretto::runtime
