// Weights in other files: where they may lie, and what of the files goes with a model.
#include "stretto/import/onnx/external_data.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <filesystem>
#include <fstream>

#include "stretto/base/error.h"
#include "stretto/import/onnx/test_model.h"

namespace stretto::onnx {
namespace {

using namespace testing;

Tensor read(const std::string& bytes, const std::string& folder = {}) {
  const Source source{"t.onnx", bytes};
  return TensorReader(source, folder, nullptr).read(bytes);
}

std::string problem(const std::string& bytes, const std::string& folder = {}) {
  try {
    read(bytes, folder);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class External : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        ("stretto_external_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
         "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "model" / "sub");
    write(folder_ / "model" / "sub" / "w.bin", raw<float>({9, 1, 2, 3}));
    write(folder_ / "secret.bin", raw<float>({9, 1, 2, 3}));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static void write(const std::filesystem::path& path, const std::string& data) {
    std::ofstream(path, std::ios::binary) << data;
  }
  std::string folder() const { return (folder_ / "model").string(); }

  // 8 bytes of `location` as the tensor w.
  static std::string external(const std::string& location, const std::string& offset = "4",
                              const std::string& length = "8", const std::string& name = "w") {
    return message([&](auto& w) {
      w.add_int64(tensor_field::kDims, 2);
      w.add_int64(tensor_field::kDataType, static_cast<int64_t>(DataType::kFloat));
      w.add_string(tensor_field::kName, name);
      w.add_int64(tensor_field::kDataLocation, kExternalLocation);
      for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", location},
                                       {"offset", offset},
                                       {"length", length}}) {
        w.add_message(tensor_field::kExternalData, message([&, k = key, v = value](auto& e) {
                        e.add_string(entry_field::kKey, k);
                        e.add_string(entry_field::kValue, v);
                      }));
      }
    });
  }

  std::filesystem::path folder_;
};

TEST_F(External, IsMapped) {
  EXPECT_EQ(read(external("sub/w.bin"), folder()).as_doubles(), (std::vector<double>{1, 2}));
  EXPECT_EQ(read(external("./sub/w.bin", "8"), folder()).as_doubles(), (std::vector<double>{2, 3}));
}

TEST_F(External, StaysInTheFolder) {
  const std::string secret = (folder_ / "secret.bin").string();
  for (const std::string& location :
       {std::string("../secret.bin"), std::string("sub/../../secret.bin"), secret}) {
    EXPECT_TRUE(contains(problem(external(location), folder()), "outside the model's folder"))
        << location;
  }
  std::filesystem::create_symlink("../secret.bin", folder_ / "model" / "link.bin");
  EXPECT_TRUE(contains(problem(external("link.bin"), folder()), "is a link to a file outside"));
  std::filesystem::create_symlink("sub/w.bin", folder_ / "model" / "fine.bin");
  EXPECT_EQ(read(external("fine.bin"), folder()).as_doubles()[0], 1);
}

TEST_F(External, IsChecked) {
  EXPECT_TRUE(contains(problem(external("sub/none.bin"), folder()), "cannot be found"));
  EXPECT_TRUE(contains(problem(external("sub"), folder()), "is no regular file"));
  EXPECT_TRUE(contains(problem(external(""), folder()), "names no file"));
  EXPECT_TRUE(
      contains(problem(external(std::string("sub/w.bin\0x", 11)), folder()), "no text in UTF-8"));
  EXPECT_TRUE(contains(problem(external("sub/w.bin", "12"), folder()),
                       "needs 8 bytes at 12, the file has 16"));
  EXPECT_TRUE(contains(problem(external("sub/w.bin", "18446744073709551615"), folder()),
                       "the file has 16"));
  EXPECT_TRUE(
      contains(problem(external("sub/w.bin", "-4"), folder()), "expected a number of bytes"));
  EXPECT_TRUE(
      contains(problem(external("sub/w.bin", "4", "4"), folder()), "its external data has 4"));
  EXPECT_TRUE(contains(problem(external("sub/w.bin")), "without a folder"));
}

TEST_F(External, MayComeWithTheModel) {
  const std::string first = raw<float>({9, 1, 2}), second = raw<float>({7, 8});
  std::vector<ExternalData> given(2);
  given[0] = {.location = "w", .offset = 64, .bytes = {}};
  given[0].bytes.add_view(std::as_bytes(std::span(first)));
  given[0].bytes.add_view(std::as_bytes(std::span(second)));
  given[1] = {.location = "v", .offset = 0, .bytes = {}};
  given[1].bytes.add_view(std::as_bytes(std::span(second)));
  const auto owner = std::make_shared<int>(0);
  const auto at = [&](const std::string& location, const std::string& offset) {
    const std::string bytes = external(location, offset);
    const Source source{"t.onnx", bytes};
    try {
      const Tensor tensor = TensorReader(source, {}, owner, given).read(bytes);
      return fmt::format("{}", fmt::join(tensor.as_doubles(), " "));
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(at("w", "68"), "1 2");
  EXPECT_EQ(at("w", "76"), "7 8");
  EXPECT_EQ(at("v", "0"), "7 8");
  for (const char* outside : {"0", "60", "72", "80", "18446744073709551612"}) {
    EXPECT_TRUE(contains(at("w", outside), "are not in the data that came with the model"))
        << outside;
  }
  EXPECT_TRUE(contains(at("u", "0"), "8 bytes at 0 of 'u' are not in the data"));
}

// Of initialisers, attributes in branches, defaults of functions and sparse tensors; neighbours are
// one part, which begins where tensors keep their alignment.
TEST_F(External, GoesWithTheModel) {
  std::string bytes(64 << 10, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + (i >> 8));
  write(folder_ / "model" / "large.bin", bytes);
  const auto large = [&](int at, const std::string& name) {
    return external("large.bin", std::to_string(at), "8", name);
  };
  const std::string branch =
      graph({.nodes = {node("Constant", {}, {"v"}, {attr_tensor("value", large(20000, ""))})},
             .inputs = {},
             .outputs = {"v"},
             .initializers = {}});
  const std::string function_with_default =
      function({.name = "F",
                .inputs = {},
                .outputs = {"v"},
                .nodes = {node("Constant", {}, {"v"},
                               {attr_reference("value", "d", AttributeType::kTensor)})},
                .attribute_defaults = {attr_tensor("d", large(40000, ""))}});
  const std::string proto = model(
      {.nodes = {node("If", {"c"}, {"y"},
                      {attr_graph("then_branch", branch), attr_graph("else_branch", branch)})},
       .inputs = {input("c", {}, DataType::kBool)},
       .outputs = {"y"},
       .initializers = {large(204, "a"), large(212, "b"), large(4000, "c1"),
                        external("sub/w.bin", "4", "8", "d")}},
      17, {function_with_default});
  write(folder_ / "model" / "m.onnx", proto);
  const auto reader = Reader::of_file((folder_ / "model" / "m.onnx").string());
  std::string parts;
  for (const ExternalData& part : reader->external_data()) {
    parts += fmt::format("{} {}+{}, ", part.location, part.offset, part.bytes.size());
    const std::string text = part.bytes.joined();
    if (part.location != "large.bin") continue;
    EXPECT_EQ(text, bytes.substr(part.offset, text.size()));
  }
  EXPECT_EQ(parts, "large.bin 192+3816, large.bin 19968+40, large.bin 40000+8, sub/w.bin 0+12, ");
}

}  // namespace
}  // namespace stretto::onnx
