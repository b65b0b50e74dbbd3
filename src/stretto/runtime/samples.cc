#include "stretto/runtime/samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/ir/serialize.h"
#include "stretto/runtime/measure_model.h"
#include "stretto/tensor/compare.h"

namespace stretto::runtime {
namespace {

using nlohmann::json;

// Where the values of a SampleOutput are, in an output of `count` elements.
std::vector<int64_t> sample_positions(int64_t count, int64_t peak) {
  if (count == 0) return {};
  const int64_t kept = std::min(count, kSampleValues);
  std::vector<int64_t> positions;
  // Without overflow: count may be 2^40.
  for (int64_t i = 0; i < kept; ++i) {
    positions.push_back(i * (count / kept) + i * (count % kept) / kept);
  }
  positions.push_back(peak);
  return positions;
}

Tensor pick(const Tensor& from, const std::vector<int64_t>& positions) {
  Tensor to(from.dtype(), {static_cast<int64_t>(positions.size())});
  const size_t size = dtype_bytes(from.dtype());
  const auto* source = static_cast<const std::byte*>(from.data());
  auto* target = static_cast<std::byte*>(to.mutable_data());
  for (const int64_t at : positions) {
    std::memcpy(target, source + static_cast<size_t>(at) * size, size);
    target += size;
  }
  return to;
}

int64_t peak_of(const Tensor& tensor) {
  const std::vector<double> values = tensor.as_doubles();
  int64_t peak = 0;
  double largest = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    const double size = std::fabs(values[i]);
    if (!std::isfinite(size) || size <= largest) continue;
    largest = size;
    peak = static_cast<int64_t>(i);
  }
  return peak;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// Those that were given, or that sample_inputs() does not make up again from this graph. What it
// makes up depends on which inputs it makes up before, so this goes on until nothing changes.
std::map<std::string, Tensor> inputs_to_keep(const ir::Graph& graph,
                                             const std::vector<SampleInput>& inputs) {
  std::map<std::string, Tensor> kept;
  const auto name = [&](size_t i) { return graph.value(graph.inputs[i]).name; };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].made_up) kept[name(i)] = inputs[i].tensor;
  }
  for (size_t before = kept.size() + 1; before != kept.size();) {
    before = kept.size();
    const std::vector<SampleInput> again = sample_inputs(graph, kept);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!same_bytes(again[i].tensor, inputs[i].tensor)) kept[name(i)] = inputs[i].tensor;
    }
  }
  return kept;
}

void check_input(const ir::Graph& graph, const std::string& name, const Tensor& tensor) {
  for (const ir::ValueId id : graph.inputs) {
    const ir::Value& value = graph.value(id);
    if (value.name == name && value.dtype == tensor.dtype() && *value.shape == tensor.shape()) {
      return;
    }
  }
  throw_invalid("samples: {} is no such input of the model", name);
}

}  // namespace

Samples take_samples(const ir::Graph& graph, const std::vector<SampleInput>& inputs,
                     const std::vector<Tensor>& outputs, double bound) {
  Samples samples{.inputs = inputs_to_keep(graph, inputs), .bound = bound};
  int64_t bytes = 0;
  for (const auto& [name, tensor] : samples.inputs) bytes += static_cast<int64_t>(tensor.bytes());
  if (bytes > kMostSampleInputBytes) {
    return {.missing = fmt::format("the inputs given to optimize() take {} bytes, more than the {} "
                                   "that are kept",
                                   bytes, kMostSampleInputBytes)};
  }
  if (!std::isfinite(bound)) return {.missing = "errors of any size were allowed"};
  if (outputs.empty()) samples.missing = "the model has no outputs";
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int64_t peak = peak_of(outputs[i]);
    samples.outputs.push_back({graph.value(graph.outputs[i]).name, peak,
                               pick(outputs[i], sample_positions(outputs[i].count(), peak))});
  }
  return samples;
}

void verify_samples(const ir::Graph& graph, const Program& program, const Samples& samples,
                    const std::string& file) {
  if (samples.outputs.empty()) {
    throw_unsupported("{}: holds no sample outputs to verify with: {}", file, samples.missing);
  }
  std::vector<Tensor> inputs;
  for (const SampleInput& sample : sample_inputs(graph, samples.inputs)) {
    inputs.push_back(sample.tensor);
  }
  const RepeatedDraws repeated;  // as when the samples were taken
  const std::vector<Tensor> outputs = run_program(program, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const SampleOutput& sample = samples.outputs[i];
    const Tensor got = pick(outputs[i], sample_positions(outputs[i].count(), sample.peak));
    const double error = compare(got, sample.values).relative_to_max;
    if (error <= samples.bound) continue;
    throw InternalError(
        fmt::format("{}: output {} is off by {:.1e} of its largest value (allowed {:.0e}) from the "
                    "sample output in the file; optimise the model again on this machine",
                    file, sample.name, error, samples.bound));
  }
}

json samples_json(const Samples& samples, Pieces& block) {
  json inputs = json::object(), outputs = json::array();
  for (const auto& [name, tensor] : samples.inputs) inputs[name] = ir::write_tensor(tensor, block);
  for (const SampleOutput& output : samples.outputs) {
    outputs.push_back({{"name", output.name},
                       {"peak", output.peak},
                       {"values", ir::write_tensor(output.values, block)}});
  }
  return {{"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"bound", samples.bound},
          {"missing", samples.missing}};
}

Samples read_samples(const json& description, const ir::Graph& graph,
                     std::span<const std::byte> block, std::shared_ptr<const void> owner,
                     const std::string& file) {
  Samples samples{.bound = description.at("bound").get<double>(),
                  .missing = description.at("missing").get<std::string>()};
  if (!(samples.bound >= 0) || !std::isfinite(samples.bound))
    throw_invalid("samples: a bound of {}", samples.bound);
  const auto tensor = [&](const json& j) { return ir::read_tensor(j, block, owner, file); };
  for (const auto& [name, value] : description.at("inputs").items()) {
    const Tensor input = tensor(value);
    check_input(graph, name, input);
    samples.inputs[name] = input;
  }
  const json& outputs = description.at("outputs");
  if (!outputs.empty() && outputs.size() != graph.outputs.size()) {
    throw_invalid("samples: {} outputs of {}", outputs.size(), graph.outputs.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ir::Value& value = graph.value(graph.outputs[i]);
    const json& j = outputs[i];
    SampleOutput output{
        .name = value.name, .peak = j.at("peak").get<int64_t>(), .values = tensor(j.at("values"))};
    const int64_t count = element_count(*value.shape);
    const auto positions = static_cast<int64_t>(sample_positions(count, 0).size());
    if (j.at("name").get<std::string>() != value.name || output.values.dtype() != value.dtype ||
        output.values.shape() != Shape{positions} || output.peak < 0 ||
        (output.peak >= count && count > 0)) {
      throw_invalid("samples: output {} does not fit the model's", value.name);
    }
    samples.outputs.push_back(std::move(output));
  }
  return samples;
}

}  // namespace stretto::runtime
