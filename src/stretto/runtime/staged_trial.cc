#include "stretto/runtime/staged_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/runtime/opening.h"

namespace stretto::runtime {
namespace {

constexpr double kPatience_s = 20;

const char* kind_of(const onnx::WireInput& declared) {
  if (declared.is_sequence) return "sequence";
  if (declared.is_optional) return "optional";
  if (declared.type == onnx::DataType::kString) return "strings";
  return "";
}

}  // namespace

std::shared_ptr<StagedSource> open_staged_source(const std::string& path,
                                                 const OptimizeOptions& options) {
  std::shared_ptr<onnx::Reader> reader = onnx::Reader::of_file(path);
  feed_named(*reader, options);
  return std::make_shared<StagedSource>(std::move(reader));
}

StagedFace staged_face(const onnx::Reader& reader, const onnx::Body& body, const std::string& file,
                       const OptimizeOptions& options) {
  StagedFace face;
  face.graph.name = reader.describe().graph.name;
  // Tensors whose rank is known, by the file or by the caller.
  std::vector<onnx::DeclaredInput> shaped;
  for (const onnx::DeclaredInput& input : reader.inputs()) {
    if (!input.is_tensor) continue;
    if (input.shape || options.shapes.contains(input.name)) shaped.push_back(input);
  }
  const auto opening = find_opening(shaped, file, options);
  if (opening && !opening->fixed()) {
    for (const Opening::Guess& guess : opening->guesses) face.notes.push_back(guess.advice);
  }
  for (size_t i = 0; i < reader.inputs().size(); ++i) {
    const onnx::DeclaredInput& declared = reader.inputs()[i];
    const onnx::WireInput& wire = body.inputs()[i];
    StagedInput input{.name = declared.name, .is_tensor = declared.is_tensor};
    if (!declared.is_tensor) {
      face.complete = false;
      face.inputs.push_back(std::move(input));
      continue;
    }
    input.dtype =
        onnx::element_type(body.source(), wire.type, "input " + declared.name, wire.position);
    std::optional<Shape> first;
    for (size_t k = 0; opening && k < opening->inputs.size(); ++k) {
      if (opening->inputs[k].name != declared.name) continue;
      input.shape = opening->inputs[k].shape;
      first = opening->first[k];
      const bool asked = options.ranges.contains(declared.name);
      for (Dimension& d : *input.shape) {
        if (!asked && d.most == Dimension::kAny) d.least = 0;  // values may make nothing
      }
    }
    const auto given = options.inputs.find(declared.name);
    if (!first && given != options.inputs.end()) first = given->second.shape();
    if (first) {
      face.graph.inputs.push_back(face.graph.add_value(declared.name, input.dtype, *first));
    } else {
      face.complete = false;
    }
    face.inputs.push_back(std::move(input));
  }
  return face;
}

StagedTrial try_staged(Staged& staged, const StagedFace& face, const OptimizeOptions& options) {
  StagedTrial trial;
  trial.samples = sample_inputs(face.graph, options.inputs);
  if (!face.complete) {
    trial.failure = "some inputs are no tensors, or of unknown rank, so it was not run";
    return trial;
  }
  std::vector<AnyValue> inputs;
  for (const SampleInput& sample : trial.samples) inputs.emplace_back(sample.tensor);
  Staged::Observer observer;
  observer.piece = [&](const std::shared_ptr<StagePiece>& piece, const std::vector<Tensor>& given) {
    const auto at = std::find_if(trial.pieces.begin(), trial.pieces.end(),
                                 [&](const auto& seen) { return seen.piece == piece; });
    if (at != trial.pieces.end()) {
      ++at->runs;
    } else {
      trial.pieces.push_back({piece, given, 1});
    }
  };
  observer.step = [&](std::string_view op, std::string_view node) {
    const std::pair<std::string, std::string> step(op, node);
    if (std::find(trial.steps.begin(), trial.steps.end(), step) == trial.steps.end()) {
      trial.steps.push_back(step);
    }
  };
  const bool made_up = std::any_of(trial.samples.begin(), trial.samples.end(),
                                   [](const SampleInput& sample) { return sample.made_up; });
  // Made-up values may keep a loop going for ever.
  const double start = now_s();
  const InterruptScope patience([&] {
    if (options.interrupt) options.interrupt();
    if (!made_up || now_s() - start < kPatience_s) return;
    throw_unsupported("on made-up inputs it runs for more than {} s", kPatience_s);
  });
  try {
    trial.outputs = staged.run(inputs, &observer);
  } catch (const InvalidArgument& error) {
    if (!made_up) throw;
    trial.failure = error.what();
  } catch (const Unsupported& error) {
    if (!made_up) throw;
    trial.failure = error.what();
  } catch (const std::bad_alloc&) {
    if (!made_up) throw;
    trial.failure = "on made-up inputs it needs more memory than there is";
  }
  return trial;
}

std::vector<TensorSpec> staged_inputs(const StagedFace& face, const onnx::Body& body) {
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < face.inputs.size(); ++i) {
    TensorSpec spec{face.inputs[i].name, face.inputs[i].dtype, {}, kind_of(body.inputs()[i])};
    for (ir::ValueId id : face.graph.inputs) {
      const ir::Value& value = face.graph.value(id);
      if (value.name == spec.name) spec.shape = *value.shape;
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<TensorSpec> staged_outputs(const onnx::Body& body, const std::vector<AnyValue>& seen) {
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    const onnx::WireInput& declared = body.output_types()[i];
    TensorSpec spec{std::string(body.outputs()[i]), DType::kUndefined, {}, kind_of(declared)};
    if (i < seen.size()) {
      if (seen[i].is_tensor()) {
        spec.dtype = seen[i].tensor().dtype();
        spec.shape = seen[i].tensor().shape();
      } else if (seen[i].is_strings()) {
        spec.shape = seen[i].strings().shape;
        spec.other = "strings";
      } else {
        spec.other = seen[i].is_sequence() ? "sequence" : "optional";
      }
    } else if (spec.other.empty()) {
      if (declared.is_tensor && declared.type != onnx::DataType::kUndefined) {
        spec.dtype = onnx::element_type(body.source(), declared.type, "output", declared.position);
      }
      if (declared.shape) {
        for (const onnx::WireDimension& d : *declared.shape) {
          spec.shape.push_back(d.value.value_or(-1));
        }
      }
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace stretto::runtime
