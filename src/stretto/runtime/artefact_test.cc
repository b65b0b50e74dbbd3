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

Model load_text(const std::string& content, const LoadOptions& options = {}) {
  auto owner = std::make_shared<std::string>(content);
  return load_bytes(std::as_bytes(std::span(*owner)), owner, "test.stretto", options);
}

std::vector<Tensor> run(const Model& model) {
  Tensor x(DType::kFloat32, model.inputs()[0].shape);
  auto values = x.mutable_values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8;
  return Session(model).run({x});
}

// fp32 sums of a hundred terms in another order, F(4,3) against direct: values reach 100.
void expect_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].values<float>(), y = b[i].values<float>();
    for (size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], 1e-2f) << "output " << i;
  }
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
  EXPECT_EQ(narrow.state().program->target.isa, kIsas.front());
  const bool same = usable_isa() == kIsas.front();
  EXPECT_EQ(narrow.notes().size(), same ? 0u : 1u);
  expect_close(run(narrow), run(model_of(kSmallNet)));
}

TEST(Artefact, RunsWithTheCoresOfThisMachine) {
  const int cores = cpu_info().cores;
  const std::string path = temporary("threads.stretto");
  const Model made = model_of(kSmallNet, cores + 1);
  made.save(path);
  const Model clamped = load(path), obeyed = load(path, {.threads = cores + 2});
  std::filesystem::remove(path);
  EXPECT_TRUE(made.notes().empty());
  EXPECT_EQ(clamped.threads(), cores);
  ASSERT_EQ(clamped.notes().size(), 1u);
  EXPECT_TRUE(clamped.notes()[0].starts_with(
      fmt::format("optimised for {} threads, runs with {}: this machine has", cores + 1, cores)))
      << clamped.notes()[0];
  EXPECT_EQ(obeyed.threads(), cores + 2);
  EXPECT_TRUE(obeyed.notes().empty());
  expect_close(run(clamped), run(made));
  expect_close(run(obeyed), run(made));
}

TEST(Artefact, TheSameThreadsAreNoReasonToPackAnew) {
  const std::string path = temporary("one.stretto");
  model_of(kSmallNet, 1).save(path);
  const Model loaded = load(path, {.threads = 1});
  std::filesystem::remove(path);
  EXPECT_TRUE(loaded.notes().empty());
  EXPECT_EQ(loaded.state().program->owners.size(), 1u);
}

TEST(Artefact, ThreadsOutOfRangeAreTheCallersMistake) {
  EXPECT_THROW(load_text(saved_bytes(), {.threads = -1}), InvalidArgument);
  EXPECT_THROW(load_text(saved_bytes(), {.threads = 1025}), InvalidArgument);
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
