// One operator compiled for one key: a program, and where its operands come from in a call.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "stretto/runtime/compile.h"
#include "stretto/runtime/direct/arguments.h"
#include "stretto/tune/tuning_cache.h"

namespace stretto::runtime::direct {

// Constants of the program that are arguments of the call: which one, and how the kernel sees it.
struct ArgumentTensor {
  int argument = -1;  // -1: `constant` is the program's own
  Tensor constant;    // of an argument, type and shape only
};

// Weights that an instruction packs anew in every call.
struct Packing {
  int instruction = 0;
  std::vector<ArgumentTensor> from;
  int64_t offset = 0;  // in the lane's memory, behind the arena
  int64_t bytes = 0;
};

struct Prepared {
  const DirectOperator* op = nullptr;
  Program program;
  std::vector<int> argument_of;       // per input of the program
  std::vector<int> argument_of_blob;  // per blob: the argument that is used in its place, or -1
  std::vector<Packing> packings;
  int64_t lane_bytes = 0;  // of arena and packed weights
  double seconds = 0;      // expected on one thread
  // Over so fast that callers need not let others go on meanwhile.
  bool brief = false;
  std::vector<std::weak_ptr<const void>> constants;  // of no use when one of them is gone

  bool interprets() const;  // whether some node has no kernel
};

// What all operators of one context are compiled for.
struct Making {
  kernels::Target target;  // with the most threads that a call may use
  tune::TuningCache known;
};

// Throws InvalidArgument and Unsupported beginning with the operator.
std::shared_ptr<const Prepared> prepare(const Making& making, const DirectOperator& op,
                                        std::span<const Argument> arguments,
                                        const ir::Attributes& attributes, int outputs,
                                        int64_t opset);

}  // namespace stretto::runtime::direct
