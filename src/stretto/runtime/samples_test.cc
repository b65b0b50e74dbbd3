#include "stretto/runtime/samples.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "stretto/base/file.h"
#include "stretto/runtime/artefact.h"
#include "stretto/runtime/artefact_file.h"
#include "stretto/runtime/measure_model.h"
#include "stretto/runtime/testing.h"

namespace stretto::runtime {
namespace {

using nlohmann::json;

// fp32 sums of a few hundred terms in another order, F(4,3) against direct.
constexpr double kBound = 1e-4;

Tensor floats(const Shape& shape, float value) {
  Tensor tensor(DType::kFloat32, shape);
  for (float& v : tensor.mutable_values<float>()) v = value;
  return tensor;
}

std::vector<SampleInput> given(const Tensor& tensor) { return {{tensor, false}}; }

// kSmallNet with what it answers to `inputs`.
Model with_samples(const std::vector<SampleInput>& inputs) {
  auto state = std::make_shared<Model::State>(model_of(kSmallNet).state());
  std::vector<Tensor> tensors;
  for (const SampleInput& input : inputs) tensors.push_back(input.tensor);
  state->samples =
      take_samples(*state->graph, inputs, run_program(*state->program, tensors), kBound);
  return Model(std::move(state));
}

Model with_made_up_samples() {
  return with_samples(sample_inputs(*model_of(kSmallNet).state().graph, {}));
}

std::string saved(const Model& model) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("stretto_{}_samples", ::getpid()))
          .string();
  model.save(path);
  std::string bytes = read_file(path);
  std::filesystem::remove(path);
  return bytes;
}

Model load_verified(const std::string& bytes) {
  const auto memory = allocate(bytes.size());  // aligned as a mapped file is
  std::memcpy(memory.get(), bytes.data(), bytes.size());
  return load_bytes({memory.get(), bytes.size()}, memory, "sample.stretto", {.verify = true});
}

ArtefactSections sections_of(const std::string& bytes) {
  const ArtefactView view = open_artefact(std::as_bytes(std::span(bytes)), "sample.stretto");
  const auto text = [](const SectionView& section) {
    return std::string(reinterpret_cast<const char*>(section.bytes.data()), section.bytes.size());
  };
  return {text(view.description), text(view.constants), text(view.packed), text(view.report)};
}

TEST(Samples, AGoodFilePasses) {
  EXPECT_NO_THROW(load_verified(saved(with_made_up_samples())));
  const Tensor x = floats({1, 3, 33, 31}, 0.25f);
  const Model model = with_samples(given(x));
  EXPECT_EQ(model.state().samples.inputs.count("x"), 1u);
  EXPECT_NO_THROW(load_verified(saved(load_verified(saved(model)))));
}

TEST(Samples, MadeUpInputsTakeNoSpace) {
  EXPECT_TRUE(with_made_up_samples().state().samples.inputs.empty());
}

TEST(Samples, AnotherInstructionSetPassesToo) {
  const std::string bytes = saved(with_made_up_samples());
  ASSERT_EQ(setenv("STRETTO_ISA", "portable", 1), 0);
  EXPECT_NO_THROW(load_verified(bytes));
  ASSERT_EQ(unsetenv("STRETTO_ISA"), 0);
}

// Packed weights that are wrong, under right checksums.
TEST(Samples, WrongWeightsAreFound) {
  ArtefactSections sections = sections_of(saved(with_made_up_samples()));
  const json description = json::parse(sections.description);
  for (const json& blob : description.at("blobs")) {
    auto* first = reinterpret_cast<float*>(sections.packed.data() + blob.at(2).get<size_t>());
    std::reverse(first, first + blob.at(3).get<size_t>() / sizeof(float));
  }
  const std::string bytes = assemble_artefact(sections);
  try {
    load_verified(bytes);
    FAIL();
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("sample.stretto: output y is off by ")) << text;
    EXPECT_NE(text.find("(allowed 1e-04)"), std::string::npos) << text;
  }
}

TEST(Samples, AFileWithoutSamplesCannotBeVerified) {
  const auto said = [](const Model& model) -> std::string {
    try {
      load_verified(saved(model));
    } catch (const Unsupported& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_TRUE(said(model_of(kSmallNet)).starts_with("sample.stretto: holds no sample outputs"));
  const Model model = model_of("graph wide\n input x: float32[3000000]\n y = Relu(x)\n output y\n");
  auto state = std::make_shared<Model::State>(model.state());
  const Tensor x = floats({3000000}, 1);
  state->samples = take_samples(*state->graph, given(x), {x}, kBound);
  EXPECT_NE(said(Model(state)).find("take 12000000 bytes, more than the 8388608"),
            std::string::npos);
  state->samples = take_samples(*state->graph, given(floats({3000000}, 1)), {x},
                                std::numeric_limits<double>::infinity());
  EXPECT_NE(said(Model(state)), "");
}

// Nearly all values are small, as after a softmax, and one decides how large an error is.
TEST(Samples, OfALargeOutputSomeValuesAndTheLargest) {
  const Model model = model_of("graph peak\n input x: float32[100003]\n y = Relu(x)\n output y\n");
  Tensor y = floats({100003}, 1e-6f);
  y.mutable_values<float>()[54321] = 1;
  const Samples samples =
      take_samples(*model.state().graph, given(floats({100003}, 0)), {y}, kBound);
  ASSERT_EQ(samples.outputs.size(), 1u);
  EXPECT_EQ(samples.outputs[0].peak, 54321);
  EXPECT_EQ(samples.outputs[0].values.shape(), Shape{kSampleValues + 1});
  EXPECT_EQ(samples.outputs[0].values.values<float>().back(), 1);
}

TEST(Samples, LiesAreRefused) {
  const ArtefactSections honest =
      sections_of(saved(with_samples(given(floats({1, 3, 33, 31}, 1)))));
  const auto refused = [&](const char* pointer, const json& value) {
    ArtefactSections lie = honest;
    json description = json::parse(lie.description);
    description.at(json::json_pointer(pointer)) = value;
    lie.description = description.dump();
    try {
      load_verified(assemble_artefact(lie));
    } catch (const FormatError&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused("/samples/bound", kBound));
  EXPECT_TRUE(refused("/samples", json::array()));
  EXPECT_TRUE(refused("/samples/bound", nullptr));
  EXPECT_TRUE(refused("/samples/bound", -1));
  EXPECT_TRUE(refused("/samples/missing", 3));
  EXPECT_TRUE(refused("/samples/inputs", {{"z", 1}}));
  EXPECT_TRUE(refused("/samples/inputs/x/dtype", "float16"));
  EXPECT_TRUE(refused("/samples/inputs/x/shape", json::array({1, 3, 31, 33})));
  EXPECT_TRUE(refused("/samples/inputs/x/offset", int64_t{1} << 40));
  EXPECT_TRUE(refused("/samples/outputs/0/name", "d"));
  EXPECT_TRUE(refused("/samples/outputs/0/peak", -1));
  EXPECT_TRUE(refused("/samples/outputs/0/peak", 10));
  EXPECT_TRUE(refused("/samples/outputs/0/values/shape", json::array({3})));
  EXPECT_TRUE(refused("/samples/outputs/0/values/dtype", "int32"));
  EXPECT_TRUE(refused("/samples/outputs/1", json::object()));
  json one = json::array({json::parse(honest.description).at("samples").at("outputs").at(0)});
  EXPECT_TRUE(refused("/samples/outputs", one));
}

}  // namespace
}  // namespace stretto::runtime
