// Loads an artefact, runs it on made-up data from two threads at once, prints the largest value of
// each output:   classify model.stretto
#include <cstdio>
#include <exception>
#include <future>
#include <vector>

#include "stretto/stretto.h"

namespace {

std::vector<stretto::Tensor> ramp_inputs(const stretto::Model& model) {
  std::vector<stretto::Tensor> inputs;
  for (const stretto::TensorSpec& spec : model.inputs()) {
    stretto::Tensor ramp(stretto::DType::kFloat32, spec.shape);
    int64_t i = 0;
    for (float& value : ramp.mutable_values<float>()) {
      value = static_cast<float>(i++ % 17) / 17.0f;
    }
    inputs.push_back(ramp.converted(spec.dtype));
  }
  return inputs;
}

void print_largest(const stretto::TensorSpec& spec, const stretto::Tensor& output) {
  const std::vector<double> values = output.as_doubles();
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best]) best = i;
  }
  if (!values.empty()) std::printf("%s[%zu] = %.6g\n", spec.name.c_str(), best, values[best]);
}

int classify(const char* path) {
  const stretto::Model model = stretto::load(path);
  for (const std::string& note : model.notes()) {
    std::fprintf(stderr, "%s: %s\n", path, note.c_str());
  }
  stretto::Session session(model);
  const std::vector<stretto::Tensor> inputs = ramp_inputs(model);

  auto other = std::async(std::launch::async, [&] { return session.run(inputs); });
  const std::vector<stretto::Tensor> first = session.run(inputs);
  const std::vector<stretto::Tensor> second = other.get();

  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].as_doubles() != second[i].as_doubles()) {
      std::fprintf(stderr, "two threads got different results\n");
      return 1;
    }
    print_largest(model.outputs()[i], first[i]);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: classify model.stretto\n");
    return 2;
  }
  try {
    return classify(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "classify: %s\n", e.what());
    return 1;
  }
}
