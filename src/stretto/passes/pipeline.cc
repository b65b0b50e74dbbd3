#include "stretto/passes/pipeline.h"

#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/passes/pass_list.h"
#include "stretto/passes/run_passes.h"

namespace stretto::passes {
namespace {

// What callers see of a graph.
struct Face {
  std::string name;
  DType dtype;
  Shape shape;
  bool operator==(const Face&) const = default;
};

std::vector<Face> face(const ir::Graph& graph) {
  std::vector<Face> faces;
  for (const auto* ids : {&graph.inputs, &graph.outputs}) {
    for (ir::ValueId id : *ids) {
      const ir::Value& value = graph.value(id);
      faces.push_back({value.name, value.dtype, value.shape.value_or(Shape{})});
    }
  }
  return faces;
}

void check_names(const std::set<std::string>& disabled, std::span<const Pass* const> passes) {
  for (const std::string& name : disabled) {
    const bool known = std::any_of(passes.begin(), passes.end(), [&](const Pass* pass) {
      return pass->name == name ||
             std::find(pass->rules.begin(), pass->rules.end(), name) != pass->rules.end();
    });
    if (!known) throw_invalid("disabled passes: no pass or rule is called '{}'", name);
  }
}

void check_face(const std::vector<Face>& before, const std::vector<Face>& after) {
  STRETTO_CHECK(before.size() == after.size(), "the number of inputs and outputs changed");
  for (size_t i = 0; i < before.size(); ++i) {
    STRETTO_CHECK(before[i] == after[i], "{} {} {} became {} {} {}", before[i].name,
                  dtype_name(before[i].dtype), shape_text(before[i].shape), after[i].name,
                  dtype_name(after[i].dtype), shape_text(after[i].shape));
  }
}

}  // namespace

std::span<const Pass* const> pipeline() {
  // Each line: what holds once the pass has run.
  static constexpr const Pass* kPipeline[] = {
      &kEinsumProducts,       // sums over named axes are products, but for diagonals
      &kFoldConstants,        // no node has only known inputs, unless its result is large
      &kMultiplyInIntegers,   // bytes times constant bytes are stretto.IntegerLinear
      &kMultiplyInFloats,     // other products of quantised tensors are products of floats
      &kRemoveIdentity,       // no node returns its input; Reshape is the only shape-changer
      &kRoundInFloats,        // integers between float operators are rounded floats
      &kDeduplicate,          // no two nodes compute the same from the same inputs
      &kGatherOneHot,         // one-hot rows times a table are Gather
      &kRecogniseActivation,  // SiLU, GELU, hard-swish, Mish are one node each
      &kRecogniseLayerNorm,   // layer and RMS normalisation are one node each
      &kSqueezeExcite,        // means over whole images are GlobalAveragePool
      &kSplitRadix,           // sums over a radix axis are sums of 4-D slices
      &kComputedConv,         // weights and biases of convolutions are constant
      &kSplitVolume,          // windows over volumes are windows over planes
      &kFourierProducts,      // Fourier transforms are products, but for long ones
      &kEliminateTranspose,   // transposes have sunk below elementwise nodes or cancelled
      &kRemoveIdentity,       // the identities that sinking left are gone
      &kFuseConv,             // convolutions of constant weights are stretto.Conv*, pads explicit
      &kConcatConvs,          // concatenated convolutions of equal parts are one with groups
      &kFuseLinear,           // products with a constant matrix are stretto.Linear
      &kFoldBatchNorm,        // no BatchNormalization; constant scales are in the weights
      &kFuseAttention,        // softmax(q k^T) v is stretto.Attention on rows
      &kRemoveIdentity,       // the transposes around it have cancelled
      &kRagged,               // if asked for, rows of real tokens only between attentions
      &kMergeLinears,         // q, k and v projections of one input are one product
      &kFuseMatMul,           // stretto.MatMul has taken in scales and transposes
      &kFuseEpilogue,         // activations and residuals are in the product before them
      &kMergeConvs,           // convolutions of one input with one window are merged
      &kWidenRows,            // convolutions of rows are convolutions of images of one row
      &kFuseAddLayerNorm,     // the remaining sums are computed where they are normalised
      &kFuseElementwise,      // float32 and bool arithmetic is in few stretto.Elementwise loops
      &kRemoveDead,           // every node reaches an output, every value is used
  };
  return kPipeline;
}

PipelineReport run_pipeline(ir::Graph& graph, const PipelineOptions& options) {
  return run_passes(pipeline(), graph, options);
}

PipelineReport run_passes(std::span<const Pass* const> passes, ir::Graph& graph,
                          const PipelineOptions& options) {
  check_names(options.disabled, passes);
  ir::sort(graph);
  ir::remove_dead(graph);
  ir::infer(graph);
  const std::vector<Face> before = face(graph);
  PassContext context(options.disabled, options.max_applications, options.observe, options.derived);
  context.set_ragged(options.ragged);
  PipelineReport report;
  for (const Pass* pass : passes) {
    const double start = now_s();
    const size_t fired = context.count();
    if (!options.disabled.contains(std::string(pass->name))) {
      try {
        context.enter(*pass);
        pass->run(graph, context);
        if (context.count() != fired) {
          ir::infer(graph);
          if (options.verify) ir::verify(graph);
          check_face(before, face(graph));
        }
      } catch (const std::exception& error) {
        throw InternalError(fmt::format("pass {}: {}", pass->name, error.what()));
      }
    }
    report.seconds.emplace_back(pass->name, now_s() - start);
  }
  report.fired = context.fired();
  return report;
}

}  // namespace stretto::passes
