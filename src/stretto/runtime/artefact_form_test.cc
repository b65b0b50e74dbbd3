// Artefacts whose packed weights are in a layout that this version does not read: never wrong
// numbers, whatever those bytes are.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stretto/base/file.h"
#include "stretto/kernels/packing.h"
#include "stretto/runtime/artefact_file.h"
#include "stretto/runtime/load_and_run.h"
#include "stretto/runtime/testing.h"
#include "stretto/tensor/compare.h"

namespace stretto::runtime {
namespace {

using nlohmann::json;

struct File {
  json description;
  ArtefactSections sections;
};

std::string text_of(const SectionView& section) {
  return {reinterpret_cast<const char*>(section.bytes.data()), section.bytes.size()};
}

std::string saved(const Model& model) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("stretto_{}_form", ::getpid()))
          .string();
  model.save(path);
  std::string bytes = read_file(path);
  std::filesystem::remove(path);
  return bytes;
}

File honest() {
  static const std::string bytes = saved(model_of(kSmallNet));
  const ArtefactView view = open_artefact(std::as_bytes(std::span(bytes)), "honest");
  return {json::parse(text_of(view.description)),
          {{}, text_of(view.constants), text_of(view.packed), text_of(view.report)}};
}

// As another version would have packed them: the same values in another order.
void permute_packed(File& file) {
  for (const json& blob : file.description.at("blobs")) {
    auto* first = reinterpret_cast<float*>(file.sections.packed.data() + blob.at(2).get<size_t>());
    std::reverse(first, first + blob.at(3).get<size_t>() / sizeof(float));
  }
}

Model loaded(File file) {
  file.sections.description = file.description.dump();
  const std::string bytes = assemble_artefact(file.sections);
  const auto memory = allocate(bytes.size());  // aligned as a mapped file is
  std::memcpy(memory.get(), bytes.data(), bytes.size());
  return load_bytes({memory.get(), bytes.size()}, memory, "form.stretto");
}

bool computes_right(const Model& model) {
  const Tensor x = varied_input(model.inputs()[0]);
  const auto expected = Session(model_of(kSmallNet)).run({x}), got = Session(model).run({x});
  for (size_t i = 0; i < got.size(); ++i) {
    // fp32 sums of a few hundred terms in another order, where another kernel was chosen.
    if (!(compare(got[i], expected[i]).relative_to_max < 2e-5)) return false;
  }
  return true;
}

void replace(std::string& text, std::string_view what, std::string_view by) {
  const size_t at = text.find(what);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, what.size(), by);
}

TEST(ArtefactForms, EveryPackedWeightSaysItsOwn) {
  const File file = honest();
  ASSERT_GT(file.description.at("blobs").size(), 3u);
  for (const json& blob : file.description.at("blobs")) {
    const auto form = blob.at(1).get<std::string>();
    EXPECT_TRUE(form.starts_with(std::string(kernels::architecture()) + "/")) << form;
    EXPECT_NE(form.find(".1.b"), std::string::npos) << form;
  }
}

// Without this the tests below would prove nothing: bytes in another order are wrong numbers.
TEST(ArtefactForms, TheRightFormIsBelieved) {
  File file = honest();
  EXPECT_TRUE(loaded(file).notes().empty());
  EXPECT_TRUE(computes_right(loaded(file)));
  permute_packed(file);
  EXPECT_TRUE(loaded(file).notes().empty());
  EXPECT_FALSE(computes_right(loaded(file)));
}

TEST(ArtefactForms, AnotherVersionOfALayoutIsPackedAnew) {
  File file = honest();
  permute_packed(file);
  for (json& blob : file.description["blobs"]) {
    auto form = blob[1].get<std::string>();
    replace(form, ".1.b", ".0.b");
    blob[1] = form;
  }
  const Model model = loaded(file);
  EXPECT_TRUE(computes_right(model));
  const size_t count = model.state().program->blobs.size();
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_TRUE(model.notes()[0].starts_with(
      fmt::format("{0} of {0} packed weights are in the layout of another version", count)))
      << model.notes()[0];
  // Saved again, it is of this version.
  const std::string bytes = saved(model);
  auto owner = std::make_shared<std::string>(bytes);
  EXPECT_TRUE(load_bytes(std::as_bytes(std::span(*owner)), owner, "again").notes().empty());
}

TEST(ArtefactForms, OtherWidthsOrAnotherArchitectureArePackedAnew) {
  const std::string mine = std::string(kernels::architecture()) + "/";
  for (const auto& [what, by] : {std::pair<std::string, std::string>{".b", ".b1"},
                                 {".p", ".p1"},
                                 {mine, "riscv64/"},
                                 {mine, mine + "other_"}}) {
    File file = honest();
    permute_packed(file);
    for (json& blob : file.description["blobs"]) {
      auto form = blob[1].get<std::string>();
      replace(form, what, by);
      blob[1] = form;
    }
    const Model model = loaded(file);
    EXPECT_TRUE(computes_right(model)) << by;
    EXPECT_EQ(model.notes().size(), 1u) << by;
  }
}

// Portable kernels of two architectures have the same names, and their times mean nothing here.
TEST(ArtefactForms, AFileOfAnotherArchitectureIsCompiledFromItsGraph) {
  File file = honest();
  permute_packed(file);
  file.description["target"]["architecture"] = "riscv64";
  const Model model = loaded(file);
  EXPECT_TRUE(computes_right(model));
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_TRUE(model.notes()[0].starts_with("optimised for riscv64 ")) << model.notes()[0];
}

TEST(ArtefactForms, AnotherFormatIsRefusedWithWhatToDo) {
  std::string bytes = saved(model_of(kSmallNet));
  bytes[8] = 1;
  try {
    load_bytes(std::as_bytes(std::span(bytes)), nullptr, "old.stretto");
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("format version 1, this Stretto reads version 2; "
                        "optimise the ONNX model again with it"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace stretto::runtime
