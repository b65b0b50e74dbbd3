// Single operators: any ONNX operator by its name, without a model. It is compiled when it is first
// called with some shapes, kept, and then costs little more than its kernel.
//
//   stretto::ops::Context context;
//   const stretto::ops::Constant w(weights);
//   stretto::Tensor y = context.run("Conv", {x, w}, {{"pads", std::vector<int64_t>{1, 1, 1,
//   1}}})[0];
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/tensor/tensor.h"

namespace stretto::ops {

// Attributes by ONNX's names; those that are left out have ONNX's defaults. Element types are
// ONNX's numbers or names such as "float32".
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>, Tensor>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

// An input whose values do not change, such as weights. What kernels make of it is made once and
// kept with the compiled operator; of a plain tensor it is made in every call. The values are
// copied. Copies of this object are the same constant; another object made of the same values is
// another one. What is kept beside the values is at most 8 times their size and 1 MB, and of halves
// the values as float32; it goes with the last copy, and what contexts hold of it with their next
// call.
class Constant {
 public:
  explicit Constant(const Tensor& values);
  const Tensor& tensor() const;

  struct State;
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

// One input of a call: a tensor, a constant, or nothing where the operator can do without.
struct Input {
  Input() = default;
  Input(Tensor values) : tensor(std::move(values)) {}                           // NOLINT
  Input(const Constant& values) : tensor(values.tensor()), constant(values) {}  // NOLINT
  Tensor tensor;
  std::optional<Constant> constant;
};

struct ContextOptions {
  // Most threads that one call uses; 0: one per usable core. Small operators use one.
  int threads = 0;
  // Which kernels may be used, as OptimizeOptions::accuracy.
  std::string accuracy = "default";
  // Compiled operators that are kept; the one that was not used for longest goes first. From 1.
  int capacity = 256;
  // File that knows the fastest kernels, as OptimizeOptions::tuning_cache. It is read once, and
  // calls measure nothing.
  std::string tuning_cache;
};

struct CallOptions {
  // How many outputs to make; 0: those that ONNX requires, at least one.
  int outputs = 0;
  // The opset that the call is written for; 0: the newest.
  int64_t opset = 0;
};

struct CacheStatistics {
  int64_t hits = 0, misses = 0, evictions = 0;
  int entries = 0;
};

// Compiles, keeps and runs operators. Any number of threads may use one context at the same time:
// as many calls run at once as their threads fit on the usable cores, and the others wait.
class Context {
 public:
  // Throws InvalidArgument for options out of range.
  explicit Context(const ContextOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Runs an operator of ONNX, or of ai.onnx.ml, ai.onnx.preview and ai.onnx.preview.training.
  // Inputs that decide shapes, such as those of Reshape and Slice, are read when it is compiled:
  // other values of them compile it again. Throws InvalidArgument and Unsupported beginning with
  // the operator.
  std::vector<Tensor> run(std::string_view op, std::span<const Input> inputs,
                          const Attributes& attributes = {}, const CallOptions& options = {});
  std::vector<Tensor> run(std::string_view op, std::initializer_list<Input> inputs,
                          const Attributes& attributes = {}, const CallOptions& options = {}) {
    return run(op, std::span<const Input>(inputs.begin(), inputs.size()), attributes, options);
  }
  // The same into tensors of the caller, of the types and shapes that run() would return. They may
  // overlap inputs.
  void run_into(std::string_view op, std::span<const Input> inputs, const Attributes& attributes,
                std::span<Tensor> outputs, const CallOptions& options = {});

  CacheStatistics statistics() const;
  void clear();  // forgets what was compiled

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// The names that Context::run() takes.
std::vector<std::string_view> operators();

}  // namespace stretto::ops
