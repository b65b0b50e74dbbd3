// Runs a model in stages, because parts of it depend on values that only a run knows: straight
// pieces of its graph as programs, and between them what decides how it goes on
// (docs/design/control_flow.md).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/import/onnx/import.h"
#include "stretto/import/onnx/pieces.h"
#include "stretto/runtime/executor_pool.h"
#include "stretto/runtime/siblings.h"
#include "stretto/tensor/any_value.h"
#include "stretto/tensor/shape_range.h"

namespace stretto::runtime {

// The graph with everything in it; one caller at a time, who holds the lock.
struct StagedSource {
  explicit StagedSource(std::shared_ptr<onnx::Reader> r) : reader(std::move(r)) {
    body = reader->body();
  }
  const std::shared_ptr<onnx::Reader> reader;
  std::unique_ptr<onnx::Body> body;
  std::mutex mutex;
};

struct StagedInput {
  std::string name;
  bool is_tensor = true;  // else anything goes
  DType dtype = DType::kUndefined;
  std::optional<ShapeRange> shape;  // absent: of any rank
};

// A straight piece and the program for its shapes.
struct StagePiece {
  // As imported. Only where graphs are kept or interpreted.
  std::shared_ptr<const ir::Graph> graph;
  std::shared_ptr<const Program> program;
  std::shared_ptr<ExecutorPool> pool;
  double flops = 0;
  bool light = false;  // so little work that a second thread would only cost time
};

class Staged {
 public:
  struct Options {
    kernels::Target target;
    // The reference instead of programs, in double precision.
    bool reference = false;
    // Keep the graphs of pieces, for whoever measures or verifies them.
    bool keep_graphs = false;
  };
  // Called by a run with what it does.
  struct Observer {
    std::function<void(const std::shared_ptr<StagePiece>&, const std::vector<Tensor>& inputs)>
        piece;
    std::function<void(std::string_view op, std::string_view node)> step;  // between pieces
  };

  Staged(std::shared_ptr<StagedSource> source, std::vector<StagedInput> inputs,
         std::shared_ptr<Siblings> siblings, Options options);
  ~Staged();

  const std::vector<StagedInput>& inputs() const { return inputs_; }
  const std::shared_ptr<StagedSource>& source() const { return source_; }
  const std::shared_ptr<Siblings>& siblings() const { return siblings_; }
  const Options& options() const { return options_; }
  std::vector<std::string> output_names() const;

  // One value per input of the model; returns one per output. Safe to call from several threads.
  // Throws what the nodes throw, and InvalidArgument naming an input of a wrong type or shape.
  std::vector<AnyValue> run(std::span<const AnyValue> inputs, const Observer* observer = nullptr);

  int programs() const { return programs_; }              // made so far
  int64_t memory_bytes() const { return memory_bytes_; }  // of the largest program so far

 private:
  struct Entry;
  struct Environment;
  struct KeyPart;
  struct Step;
  struct Stage;
  struct Next;
  struct Run;

  Next& root_of(const onnx::Body& body);
  std::shared_ptr<Stage> find(Next& next, const Environment& environment);
  std::shared_ptr<Stage> make(const onnx::Body& body, Next& next, const Environment& environment);
  std::shared_ptr<StagePiece> make_piece(ImportedModel model);
  void check(std::span<const AnyValue> inputs) const;

  const std::shared_ptr<StagedSource> source_;
  const std::vector<StagedInput> inputs_;
  const std::shared_ptr<Siblings> siblings_;
  const Options options_;
  std::map<const onnx::Body*, std::unique_ptr<Next>> roots_;  // under the source's lock
  std::atomic<int> programs_{0};
  std::atomic<int64_t> memory_bytes_{0};
};

}  // namespace stretto::runtime
