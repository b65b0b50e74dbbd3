// Artefacts whose checksums are right and whose text parses, and that say what is not so. Each lie
// has to be found before a kernel believes it.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "stretto/base/file.h"
#include "stretto/ir/interpreter.h"
#include "stretto/kernels/packing.h"
#include "stretto/runtime/artefact.h"
#include "stretto/runtime/artefact_file.h"
#include "stretto/runtime/load_and_run.h"
#include "stretto/runtime/measure_model.h"
#include "stretto/runtime/optimize.h"
#include "stretto/runtime/other_shapes.h"
#include "stretto/runtime/testing.h"
#include "stretto/tune/tuning_cache.h"

namespace stretto::runtime {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;

std::string text_of(const SectionView& section) {
  return {reinterpret_cast<const char*>(section.bytes.data()), section.bytes.size()};
}

ArtefactSections sections_of(const Model& model, const std::string& name) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("stretto_{}_{}", ::getpid(), name))
          .string();
  model.save(path);
  const std::string bytes = read_file(path);
  std::filesystem::remove(path);
  const ArtefactView view = open_artefact(std::as_bytes(std::span(bytes)), path);
  return {text_of(view.description), text_of(view.constants), text_of(view.packed),
          text_of(view.report)};
}

const ArtefactSections& honest() {
  static const ArtefactSections sections = sections_of(model_of(kSmallNet), "honest");
  return sections;
}

// What loading says; "" when it loads.
std::string refusal(const ArtefactSections& sections) {
  const std::string file = assemble_artefact(sections);
  try {
    auto owner = std::make_shared<std::string>(file);
    load_bytes(std::as_bytes(std::span(*owner)), owner, "lie.stretto");
  } catch (const FormatError& error) {
    return std::string("FormatError ") + error.what();
  } catch (const Unsupported& error) {
    return std::string("Unsupported ") + error.what();
  }
  return "";
}

std::string refusal_of(const std::function<void(json&)>& change) {
  ArtefactSections lie = honest();
  json description = json::parse(lie.description);
  change(description);
  lie.description = description.dump();
  return refusal(lie);
}

// The weights are packed for another architecture, whose vectors may be as long as this one's.
TEST(ArtefactLies, AnotherArchitecturePacksAnewAndSaysSo) {
  const std::string own(kernels::architecture());
  const std::string foreign = own == "aarch64" ? "x86_64" : "aarch64";
  ArtefactSections sections = honest();
  json description = json::parse(sections.description);
  const std::string isa = description.at("target").at("isa");
  for (const json& blob : description.at("blobs")) {
    EXPECT_TRUE(blob.at(1).get<std::string>().starts_with(own + "/")) << blob.at(1);
  }
  for (const std::string& theirs : {isa, std::string(foreign == "aarch64" ? "neon" : "avx2")}) {
    description["target"]["architecture"] = foreign;
    description["target"]["isa"] = theirs;
    sections.description = description.dump();
    // Weights that would give other outputs if they were used.
    std::fill(sections.packed.begin(), sections.packed.end(), '\0');
    const std::string file = assemble_artefact(sections);
    auto owner = std::make_shared<std::string>(file);
    const Model model = load_bytes(std::as_bytes(std::span(*owner)), owner, "foreign.stretto");
    ASSERT_EQ(model.notes().size(), 1u);
    EXPECT_TRUE(model.notes()[0].starts_with(
        fmt::format("optimised for {} {}, compiled for this machine's {} {}", foreign, theirs, own,
                    isa_name(usable_isa()))))
        << model.notes()[0];
    EXPECT_EQ(model.state().program->target.isa, usable_isa());
    for (const auto& kept : model.state().program->owners) EXPECT_NE(kept, owner);
    Tensor x(DType::kFloat32, model.inputs()[0].shape);
    for (float& v : x.mutable_values<float>()) v = 1;
    const std::vector<Tensor> got = Session(model).run({x});
    const std::vector<Tensor> expected = Session(model_of(kSmallNet)).run({x});
    for (size_t i = 0; i < got.size(); ++i) {
      const auto a = got[i].values<float>(), b = expected[i].values<float>();
      // The machine's tuning cache may choose other kernels, as in artefact_test.cc.
      for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-2f) << "output " << i;
    }
  }
}

TEST(ArtefactLies, TheTruthLoads) { EXPECT_EQ(refusal(honest()), ""); }

TEST(ArtefactLies, InTheDescription) {
  struct Lie {
    const char* pointer;
    json value;
    const char* said;
  };
  const json huge = int64_t{1} << 40;
  const Lie lies[] = {
      {"/name", 7, "type must be string"},
      {"/stretto", nullptr, "type must be string"},
      {"/target/threads", 0, "0 threads"},
      {"/target/threads", 5000000000, "5000000000 threads"},
      {"/target/isa", "abacus", "abacus"},
      {"/target/accuracy", "vague", "vague"},
      {"/choices", tune::TuningCache().text() + "key only\n", "line 2"},
      {"/choices", tune::TuningCache().text() + "key\trow\tnan\n", "line 2"},
      {"/choices", tune::TuningCache().text() + "key\trow\t1e300\n", "line 2"},
      {"/target/architecture", 7, "type must be string"},
      {"/blobs/0/1", 7, "type must be string"},
      {"/blobs/0/2", 1, "outside their section"},
      {"/blobs/0/2", huge, "outside their section"},
      {"/blobs/0/3", huge, "outside their section"},
      {"/blobs/0/3", -64, "expected key, form, offset and size"},
      {"/blobs/0/3", 1.5, "expected key, form, offset and size"},
      {"/graph/inputs/0", 1000, "value 1000 does not exist"},
      {"/graph/inputs/0", -1, "is absent"},
      {"/graph/outputs/0", 1000, "value 1000 does not exist"},
      {"/graph/values/0/dtype", "complex", "complex"},
      {"/graph/values/0/shape", json::array({1, 3, 1.5, 31}), "expected an integer, found 1.5"},
      {"/graph/values/0/shape", json::array({1, 3, -33, 31}), "negative"},
      {"/graph/values/0/shape", json::array({huge, huge}), "more than 2^40"},
      {"/graph/values/0/shape", json::array({1, 3, 40, 31}), "is declared as"},
      {"/graph/values/0/shape", json(std::vector<int>(65, 1)), "65 dimensions"},
      {"/graph/values/0/shape", "1x3", "expected a list of integers"},
      {"/graph/values/1/constant/offset", 3, "lies outside the data"},
      {"/graph/values/1/constant/offset", huge, "lies outside the data"},
      {"/graph/values/1/constant/offset", -64, "lies outside the data"},
      {"/graph/values/1/constant/shape", json::array({4096, 4096}), "lies outside the data"},
      {"/graph/values/1/constant/shape", json::array({864}), "does not match its declared"},
      {"/graph/nodes/0/op", "Sparkle", "unknown operator 'Sparkle'"},
      {"/graph/nodes/0/op", "GlobalAveragePool", "at most 1 inputs"},
      {"/graph/nodes/0/inputs/0", 12, "before it is made"},
      {"/graph/nodes/0/inputs/1", -1, "is missing"},
      {"/graph/nodes/0/outputs/0", 0, "is made twice"},
      {"/graph/nodes/0/outputs/0", 1, "before it is made"},
      {"/graph/nodes/0/attributes", json{{"pads", {{"ints", {1, 1}}}}}, "pads: expected 4 values"},
      {"/graph/nodes/0/attributes", json{{"pads", {{"int", 1}}}}, "wrong kind"},
      {"/graph/nodes/0/attributes", json{{"pads", {{"bits", 1}}}}, "unknown attribute kind 'bits'"},
      {"/graph/nodes/0/attributes", json{{"alpha", {{"float", "0x1p"}}}}, "'0x1p' is no number"},
      {"/graph/nodes/0/attributes", json{{"group", {{"int", 3}}}}, "group"},
      {"/graph/nodes/0/attributes", json{{"colour", {{"int", 3}}}}, "unknown attribute colour"},
      {"/graph/nodes/0/attributes", json{{"activation", {{"string", {256}}}}}, "256 is no byte"},
      {"/graph/nodes/0/attributes", json{{"activation", {{"string", {65}}}}}, "no 'A'"},
  };
  for (const Lie& lie : lies) {
    SCOPED_TRACE(fmt::format("{} = {}", lie.pointer, lie.value.dump()));
    const std::string said =
        refusal_of([&](json& description) { description.at(Pointer(lie.pointer)) = lie.value; });
    EXPECT_TRUE(said.starts_with("FormatError lie.stretto")) << said;
    EXPECT_NE(said.find(lie.said), std::string::npos) << said;
  }
}

// In a build without pictures all are refused, the honest one too.
TEST(ArtefactLies, AboutPictures) {
  const json honest_one{{"input", 0}, {"layout", "NCHW"}, {"steps", "resize(33, 31)"}};
  const auto check = [](const json& preprocess, const std::string& said) {
    const std::string got = refusal_of([&](json& d) { d["preprocess"] = preprocess; });
    if (got.find("STRETTO_BUILD_MEDIA=OFF") != std::string::npos) return;
    if (said.empty()) {
      EXPECT_EQ(got, "");
    } else {
      EXPECT_NE(got.find(said), std::string::npos) << preprocess << ": " << got;
    }
  };
  check(honest_one, "");
  const auto lie = [&](const char* key, const json& value, const std::string& said) {
    json changed = honest_one;
    changed[key] = value;
    check(changed, said);
  };
  lie("steps", "resize(31, 33)", "takes 1x3x33x31, and the steps make 1x3x31x33");
  lie("steps", "resize(33, 31", "a ) is missing");
  lie("steps", 7, "type must be string");
  lie("layout", "NHWC", "the steps make 1x33x31x3");
  lie("layout", "CHWN", "layout");
  lie("input", 1, "no input 1");
  lie("input", -1, "input -1");
  check("imagenet(33)", "FormatError");
}

// An open model is read again from ONNX, whose weights lie beside it.
TEST(ArtefactLies, AboutWeightsOfOpenModels) {
  ImportedModel imported{.format = "onnx", .source = "open"};
  imported.graph = ir::parse_text(R"(
    graph open
    input x: float32[2, 32]
    constant w: float32[32, 32] = random(1)
    y = MatMul(x, w)
    output y
  )");
  const Model fixed = optimize_model(
      imported, {.threads = 1, .tuning = "off", .verify = false, .profile = false}, true);
  const ArtefactSections truth = sections_of(
      with_open_graph(fixed, imported, {{"x", parse_shape_range("1..4x32")}}, {}), "open");
  EXPECT_EQ(refusal(truth), "");
  const auto check = [&](const char* key, const json& value, const std::string& said) {
    ArtefactSections lie = truth;
    json description = json::parse(lie.description);
    json& data = description.at("open").at("data");
    ASSERT_EQ(data.size(), 1u);
    if (value.is_null()) {
      data[0].erase(key);
    } else {
      data[0][key] = value;
    }
    lie.description = description.dump();
    const std::string got = refusal(lie);
    EXPECT_TRUE(got.starts_with("FormatError")) << key << ": " << got;
    EXPECT_NE(got.find(said), std::string::npos) << key << ": " << got;
  };
  const json huge = ~uint64_t{0};
  for (const json& outside : {json(int64_t{1} << 40), json(-64), huge}) {
    check("offset", outside, "weights of the ONNX model lie outside");
    check("bytes", outside, "weights of the ONNX model lie outside");
  }
  for (const json& from : {json(64), huge}) check("from", from, "4096 bytes at 0 of 'weights'");
  check("bytes", 4095, "4096 bytes at 0 of 'weights'");
  check("location", "elsewhere", "4096 bytes at 0 of 'weights'");
  check("location", 7, "type must be string");
  for (const char* key : {"location", "from", "offset", "bytes"}) check(key, nullptr, key);
}

TEST(ArtefactLies, FieldsThatAreMissing) {
  for (const char* pointer :
       {"/name", "/target", "/target/isa", "/target/architecture", "/graph", "/graph/values",
        "/graph/nodes/0/op", "/graph/values/1/constant/dtype", "/choices", "/blobs", "/stretto"}) {
    const std::string path = pointer;
    const std::string said = refusal_of([&](json& description) {
      const Pointer whole(path);
      description.at(whole.parent_pointer()).erase(whole.back());
    });
    EXPECT_NE(said.find("'" + path.substr(path.rfind('/') + 1) + "'"), std::string::npos)
        << path << ": " << said;
  }
}

TEST(ArtefactLies, InTheOtherSections) {
  ArtefactSections lie = honest();
  lie.report = "{\"model\": ";
  EXPECT_NE(refusal(lie).find("the report is no JSON"), std::string::npos);
  lie.report = "[]";
  EXPECT_NE(refusal(lie).find("the report is no JSON"), std::string::npos);
  lie = honest();
  lie.constants.resize(lie.constants.size() / 2);
  EXPECT_NE(refusal(lie).find("lies outside the data"), std::string::npos);
  lie = honest();
  lie.packed.resize(lie.packed.size() / 2);
  EXPECT_NE(refusal(lie).find("packed weights lie outside"), std::string::npos);
}

TEST(ArtefactLies, ATensorLargerThanTheMachine) {
  const std::string said = refusal_of([](json& description) {
    description["graph"] = {
        {"name", "large"},
        {"inputs", {0}},
        {"outputs", {1}},
        {"values",
         {{{"name", "x"}, {"dtype", "float32"}, {"shape", {int64_t{1} << 20, 1 << 20}}},
          {{"name", "y"}, {"dtype", "float32"}, {"shape", {int64_t{1} << 20, 1 << 20}}}}},
        {"nodes",
         {{{"op", "Relu"},
           {"name", "r"},
           {"inputs", {0}},
           {"outputs", {1}},
           {"attributes", json::object()}}}}};
  });
  EXPECT_TRUE(said.starts_with("Unsupported lie.stretto: input x would be")) << said;
  EXPECT_NE(said.find("4096.0 GiB"), std::string::npos) << said;
}

// Whatever prints such a value would recurse a million times.
TEST(ArtefactLies, ListsInListsWithoutEnd) {
  constexpr int kDepth = 1'000'000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  ArtefactSections lie = honest();
  lie.report = "{\"a\\\"[\": " + deep + "}";
  EXPECT_NE(refusal(lie).find("nested deeper than 100"), std::string::npos) << refusal(lie);
  for (const char* field : {"\"blobs\":", "\"inputs\":"}) {
    lie = honest();
    const size_t at = lie.description.find(field);
    ASSERT_NE(at, std::string::npos);
    lie.description.insert(at + std::string(field).size(), deep + ",\"was\":");
    EXPECT_NE(refusal(lie).find("nested deeper than 100"), std::string::npos) << field;
  }
}

// Blobs of another size than the kernels' are not used; what matters is that the result is right.
TEST(ArtefactLies, PackedWeightsOfAnotherSize) {
  ArtefactSections lie = honest();
  json description = json::parse(lie.description);
  for (json& blob : description.at("blobs")) blob[3] = 64;
  lie.description = description.dump();
  auto owner = std::make_shared<std::string>(assemble_artefact(lie));
  const Model loaded = load_bytes(std::as_bytes(std::span(*owner)), owner, "lie.stretto");
  const Model made = model_of(kSmallNet);
  const Tensor x = varied_input(made.inputs()[0]);
  const auto a = Session(made).run({x}), b = Session(loaded).run({x});
  for (size_t i = 0; i < a.size(); ++i) {
    const auto p = a[i].values<float>(), q = b[i].values<float>();
    EXPECT_TRUE(std::equal(p.begin(), p.end(), q.begin(), q.end())) << "output " << i;
  }
}

// Kernels trust the indices in the tables they make themselves, so no file may bring them.
TEST(ArtefactLies, TablesOfIndicesAreNotStored) {
  const Model model = model_of(R"(
    graph resize
    input x: float32[1, 3, 8, 8]
    constant scales: float32[4] = {1, 1, 2, 2}
    y = Resize(x, _, scales) {mode = "linear"}
    output y
  )");
  const ArtefactSections sections = sections_of(model, "resize");
  EXPECT_EQ(json::parse(sections.description).at("blobs").dump().find("resize"), std::string::npos);
  const std::string file = assemble_artefact(sections);
  EXPECT_EQ(load_and_run(std::as_bytes(std::span(file))), Outcome::kRan);
}

// The passes spell pads out; a graph that did not go through them gets the reference, whose output
// is as large as inference says.
TEST(ArtefactLies, PadsThatThePassesWouldHaveSpelledOut) {
  for (const char* attributes :
       {"auto_pad = \"SAME_UPPER\"", "dilations = [9, 9], pads = [9, 9, 9, 9]",
        "pads = [40000, 0, 0, 0]", "dilations = [1, 40000], pads = [0, 40000, 0, 40000]"}) {
    const Model model = model_of(fmt::format(R"(
      graph pads
      input x: float32[1, 2, 5, 5]
      constant w: float32[3, 2, 3, 3] = random(1)
      y = stretto.Conv(x, w) {{{}}}
      output y
    )",
                                             attributes));
    const Tensor x = varied_input(model.inputs()[0]);
    const auto got = Session(model).run({x});
    const auto expected = ir::interpret(*model.state().graph, std::vector<Tensor>{x});
    EXPECT_EQ(got[0].shape(), expected[0].shape()) << attributes;
    EXPECT_LT(compare("y", got[0], expected[0]).relative_to_max, 2e-5) << attributes;
  }
}

}  // namespace
}  // namespace stretto::runtime
