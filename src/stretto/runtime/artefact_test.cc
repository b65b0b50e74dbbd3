#include "stretto/runtime/artefact.h"
#include "stretto/runtime/artefact_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "stretto/base/file.h"
#include "stretto/runtime/testing.h"

namespace stretto::runtime {
namespace {

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("stretto_{}_{}", ::getpid(), name))
      .string();
}

std::string saved_bytes() {
  static const std::string bytes = [] {
    const std::string path = temporary("model.stretto");
    model_of(kSmallNet).save(path);
    std::string content = read_file(path);
    std::filesystem::remove(path);
    return content;
  }();
  return bytes;
}

Model load_text(const std::string& content) {
  auto owner = std::make_shared<std::string>(content);
  return load_bytes(std::as_bytes(std::span(*owner)), owner, "test.stretto");
}

std::vector<Tensor> run(const Model& model) {
  Tensor x(DType::kFloat32, model.inputs()[0].shape);
  auto values = x.mutable_values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8;
  return Session(model).run({x});
}

TEST(Artefact, LoadsToTheSameModelWithoutPackingAnew) {
  const Model made = model_of(kSmallNet);
  const std::string path = temporary("same.stretto");
  made.save(path);
  const Model loaded = load(path);
  std::filesystem::remove(path);
  EXPECT_EQ(loaded.name(), "small");
  const auto a = run(made), b = run(loaded);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].values<float>(), y = b[i].values<float>();
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin())) << "output " << i;
  }
  // Every packed weight was found in the map: the only owner of blobs is the file.
  EXPECT_EQ(loaded.state().program->owners.size(), 1u);
}

TEST(Artefact, AnotherInstructionSetCompilesTheGraph) {
  const std::string content = saved_bytes();
  ASSERT_EQ(setenv("STRETTO_ISA", "portable", 1), 0);
  const Model narrow = load_text(content);
  ASSERT_EQ(unsetenv("STRETTO_ISA"), 0);
  EXPECT_EQ(narrow.state().program->target.isa, Isa::kPortable);
  const auto a = run(narrow), b = run(model_of(kSmallNet));
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].values<float>(), y = b[i].values<float>();
    // Sums of a hundred: fp32 in another order, F(4,3) against direct.
    for (size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], 1e-2f) << "output " << i;
  }
}

TEST(Artefact, EveryTruncationIsAnError) {
  const std::string content = saved_bytes();
  for (size_t size = 0; size < content.size(); size += 1 + size / 40) {
    EXPECT_THROW(load_text(content.substr(0, size)), FormatError) << size << " bytes";
  }
}

TEST(Artefact, EveryFlippedByteIsAnError) {
  const std::string content = saved_bytes();
  const ArtefactContent whole =
      read_artefact(std::as_bytes(std::span(content)), nullptr, "test.stretto");
  ASSERT_FALSE(whole.blobs.empty());
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = content;
    // The header, its padding, and anywhere.
    const size_t at = i < 200 ? static_cast<size_t>(i) : random() % content.size();
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (random() % 8)));
    try {
      load_text(damaged);
      ADD_FAILURE() << "byte " << at << " changed unnoticed (seed 5)";
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find("test.stretto"), std::string::npos);
    }
  }
}

TEST(Artefact, DamageBehindTheChecksumsIsAnError) {
  const std::string content = saved_bytes();
  std::mt19937 random(6);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> file(content.size());
    std::memcpy(file.data(), content.data(), content.size());
    // The description begins on the first page.
    for (int k = 0; k < 3; ++k) file[4096 + random() % 4000] = static_cast<std::byte>(random());
    repair_checksums(file);
    auto owner = std::make_shared<std::vector<std::byte>>(std::move(file));
    try {
      run(load_bytes(*owner, owner, "test.stretto"));
    } catch (const FormatError&) {
    } catch (const Unsupported&) {
    } catch (const InvalidArgument&) {
    }
  }
}

TEST(Artefact, OtherFilesAreToldApart) {
  try {
    load_text("\x08\x07onnx model");
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("stretto optimize"), std::string::npos);
  }
  EXPECT_THROW(load("/nonexistent/model.stretto"), FormatError);
}

}  // namespace
}  // namespace stretto::runtime
