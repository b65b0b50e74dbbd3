// Packed weights are stored in artefacts, so their bytes are a file format: this test fails when
// pack() writes other bytes and the version in its packing_text() is the old one.
#include "stretto/kernels/packing.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/conv_transpose2d/problem.h"
#include "stretto/kernels/family.h"
#include "stretto/kernels/fourier/problem.h"
#include "stretto/kernels/gemm/problem.h"
#include "stretto/kernels/group_norm/problem.h"
#include "stretto/kernels/layer_norm/problem.h"
#include "stretto/kernels/matmul_integer/problem.h"
#include "stretto/kernels/recurrent/problem.h"
#include "stretto/kernels/resize/problem.h"

namespace stretto::kernels {
namespace {

// FNV-1a.
uint64_t hash(uint64_t so_far, const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) so_far = (so_far ^ p[i]) * 0x100000001b3ull;
  return so_far;
}

std::vector<Tensor> made_up_constants(const Family& family, const void* problem) {
  std::vector<Tensor> constants;
  for (const TensorInfo& info : family.signature(problem).constants) {
    constants.emplace_back(info.dtype, info.shape);
    uint32_t state = 1;
    if (info.dtype == DType::kInt8) {
      for (int8_t& v : constants.back().mutable_values<int8_t>()) {
        state = state * 1664525 + 1013904223;
        v = static_cast<int8_t>(state >> 24);
      }
      continue;
    }
    for (float& v : constants.back().mutable_values<float>()) {
      state = state * 1664525 + 1013904223;
      v = static_cast<float>(state >> 24) / 16 - 8;
    }
  }
  return constants;
}

// "conv2d_direct.1" to the hash of what was packed in that form for any problem and target.
using Forms = std::map<std::string, uint64_t>;

template <typename P>
void pack_all(const Family& family, P problem, Forms& forms) {
  for (const Isa isa : kIsas) {
    for (const int threads : {1, 4}) {
      problem.target = {.isa = isa, .accuracy = Accuracy::kFast, .threads = threads};
      const std::vector<Tensor> constants = made_up_constants(family, &problem);
      for (int row = 0; row < family.rows; ++row) {
        const size_t bytes = family.packed_bytes(row, &problem);
        // Whether VNNI is there decides who runs the row, not what it packs.
        const bool fits = family.fits(row, &problem).ok || family.name == "matmul_integer";
        if (!fits || bytes == 0) continue;
        const std::string text = family.packing(row, &problem);
        ASSERT_FALSE(text.empty()) << family.name << " " << family.row_name(row);
        std::vector<std::byte> packed(bytes);
        family.pack(row, &problem, constants, packed.data());
        const std::string form = text.substr(0, text.find('.', text.find('.') + 1));
        uint64_t& digest = forms.try_emplace(form, 0xcbf29ce484222325ull).first->second;
        digest = hash(hash(digest, text.data(), text.size()), packed.data(), bytes);
      }
    }
  }
}

void pack_convolutions(Forms& forms) {
  const Conv2dProblem base{.c = 32,
                           .h = 20,
                           .w = 18,
                           .k = 40,
                           .kernel_h = 3,
                           .kernel_w = 3,
                           .pad_top = 1,
                           .pad_left = 1,
                           .pad_bottom = 1,
                           .pad_right = 1,
                           .x_layout = Layout::kBlocked,
                           .y_layout = Layout::kBlocked,
                           .epilogue = {.bias = true}};
  std::vector<Conv2dProblem> problems(7, base);
  problems[1].c = 20;
  problems[1].k = 100;
  problems[2].kernel_h = problems[2].kernel_w = 1;
  problems[2].pad_top = problems[2].pad_left = problems[2].pad_bottom = problems[2].pad_right = 0;
  problems[3].groups = 32;
  problems[3].k = 32;
  problems[4].groups = 8;
  problems[4].k = 32;
  problems[5].c = 3;
  problems[5].x_layout = Layout::kPlain;
  problems[5].stride_h = problems[5].stride_w = 2;
  problems[6].x_layout = problems[6].y_layout = Layout::kPlain;
  for (const Conv2dProblem& p : problems) pack_all(kConv2d, p, forms);
  for (const Layout layout : {Layout::kPlain, Layout::kBlocked}) {
    const ConvTranspose2dProblem p{.c = 32,
                                   .h = 6,
                                   .w = 5,
                                   .k = 40,
                                   .kernel_h = 4,
                                   .kernel_w = 4,
                                   .stride_h = 2,
                                   .stride_w = 2,
                                   .pad_top = 1,
                                   .pad_left = 1,
                                   .pad_bottom = 1,
                                   .pad_right = 1,
                                   .x_layout = layout,
                                   .y_layout = layout,
                                   .epilogue = {.bias = true}};
    pack_all(kConvTranspose2d, p, forms);
  }
}

Forms pack_everything() {
  Forms forms;
  pack_convolutions(forms);
  for (const int32_t transposed : {0, 1}) {
    const GemmProblem p{
        .m = 30, .n = 150, .k = 21, .transposed = transposed, .epilogue = {.bias = true}};
    pack_all(kGemm, p, forms);
  }
  pack_all(kMatmulInteger, MatmulIntegerProblem{.m = 30, .n = 150, .k = 21, .bias = 1}, forms);
  for (const RecurrentCell cell :
       {RecurrentCell::kRnn, RecurrentCell::kGru, RecurrentCell::kLstm}) {
    RecurrentProblem p{.steps = 3,
                       .batch = 2,
                       .inputs = 5,
                       .hidden = 21,
                       .cell = cell,
                       .directions = 2,
                       .bias = 1};
    p.peephole = cell == RecurrentCell::kLstm;
    pack_all(kRecurrent, p, forms);
    p.linear_before_reset = cell == RecurrentCell::kGru;
    pack_all(kRecurrent, p, forms);
  }
  pack_all(kLayerNorm, LayerNormProblem{.m = 2, .n = 30}, forms);
  pack_all(kGroupNorm, GroupNormProblem{.n = 1, .c = 30, .hw = 4, .groups = 3}, forms);
  const ResizeProblem resize{
      .c = 8, .h = 5, .w = 6, .out_h = 9, .out_w = 13, .scale_h = 1.8, .scale_w = 13 / 6.0};
  pack_all(kResize, resize, forms);
  ResizeProblem bytes = resize;
  bytes.dtype = DType::kUInt8;
  pack_all(kResize, bytes, forms);
  for (const int64_t length : {34, 96, 134}) {
    const FourierProblem p{
        .outer = 3, .size = length, .length = length, .kept = length / 2 + 1, .parts = 1};
    pack_all(kFourier, p, forms);
  }
  return forms;
}

// What every form of this architecture's instruction sets packs.
Forms known_forms() {
#if defined(__aarch64__)
  // No conv2d_grouped: these problems' groups fill whole vectors of four lanes.
  return {
      {"conv2d_1x1.1", 0x18d10229a8788769},
      {"conv2d_depthwise.1", 0x4d7da59c7e0541d1},
      {"conv2d_direct.1", 0x985fc27fa95febd9},
      {"conv2d_im2col.1", 0xd0ff33c4aa1036af},
      {"conv2d_im2col_rows.1", 0xe3f3907904cc7b31},
      {"conv2d_plain.1", 0x772b86e8ebb38bc1},
      {"conv2d_stem.1", 0x291cc3f7e6db9897},
      {"conv2d_strassen_1x1.1", 0x7b1cfe680795a92d},
      {"conv_transpose2d_phases.1", 0x8fef90c8d7bf0895},
      {"conv_transpose2d_plain.1", 0xc5bce6cab84f9915},
      {"fourier_tables.1", 0x5a524ff43c7ecc71},
      {"gemm_panels.1", 0x32826cc8c780e0a5},
      {"gemm_plain.1", 0x2959d4f8960e4935},
      {"matmul_integer_dots.1", 0x4dd2f49696512b09},
      {"matmul_integer_pairs.1", 0xcded931de6e69ad5},
      {"matmul_integer_plain.1", 0xff9b1633924e4881},
      {"recurrent_plain.1", 0x67f5c514a8a3d9a9},
      {"recurrent_steps.1", 0x885d43ecb8321c81},
      {"resize_bytes.1", 0xdd4b317d840d0dfd},
      {"resize_taps.1", 0xc2f1faed86464499},
      {"scale_bias.1", 0xd4d403c033c15fe5},
      {"winograd.1", 0xb1a0d479a75f4cb},
  };
#else
  return {
      {"conv2d_1x1.1", 0x41acfa4e22372a69},
      {"conv2d_depthwise.1", 0x946419dde250afa3},
      {"conv2d_direct.1", 0xc99d77855eda2f59},
      {"conv2d_direct_shared.1", 0x1f646807a3299ad},
      {"conv2d_grouped.1", 0x6d38bf2100cdea3f},
      {"conv2d_im2col.1", 0xb7177d0e1e0c6563},
      {"conv2d_im2col_rows.1", 0x310cfac0b1147ce5},
      {"conv2d_plain.1", 0x149b93bdfb235cd9},
      {"conv2d_stem.1", 0x3b734f99cd043333},
      {"conv2d_strassen_1x1.1", 0x7b1cfe680795a92d},
      {"conv_transpose2d_phases.1", 0x35b37cf92af7ab5f},
      {"conv_transpose2d_plain.1", 0x3a5e7063c3ae8c35},
      {"fourier_tables.1", 0xed0048677aa855fb},
      {"gemm_panels.1", 0xb92ff8014839317d},
      {"gemm_plain.1", 0x2d44296f90e50855},
      {"matmul_integer_dots.1", 0x5472994f35a21043},
      {"matmul_integer_pairs.1", 0xb217dfe5b33d81a9},
      {"matmul_integer_plain.1", 0x63b3637d7a6591b9},
      {"recurrent_plain.1", 0xbb5a19a82cb85081},
      {"recurrent_steps.1", 0x4d679e30a9a9ba25},
      {"resize_bytes.1", 0x4430400e603bec81},
      {"resize_taps.1", 0xc2cad7c7c2c345d1},
      {"scale_bias.1", 0x2bedf6fd1fc6e865},
      {"winograd.1", 0xc22873bedce0b28d},
  };
#endif
}

TEST(Packing, NoBytesChangeWithoutANewVersion) {
  const Forms known = known_forms();
  const Forms now = pack_everything();
  for (const auto& [form, digest] : now) {
    const auto at = known.find(form);
    EXPECT_TRUE(at != known.end() && at->second == digest)
        << form << " packs other bytes than the table says: raise the version in its "
        << "packing_text(), then let the table say {\"" << form << "\", 0x" << std::hex << digest
        << "},";
  }
  EXPECT_EQ(now.size(), known.size()) << "a form of the table is gone, or none of these problems "
                                         "uses it any more";
}

// What the problems pack, by everything that programs of other shapes find it by.
template <typename P>
void expect_shared(const Family& family, const std::vector<P>& problems) {
  std::map<std::string, std::vector<std::byte>> packed;
  int shared = 0;
  for (const Isa isa : kIsas) {
    for (size_t i = 0; i < 2 * problems.size(); ++i) {
      P problem = problems[i / 2];
      problem.target.isa = isa;
      if (i % 2 == 1) problem.target.panel_width = static_cast<int16_t>(2 + i / 2 % 3);
      const std::vector<Tensor> constants = made_up_constants(family, &problem);
      for (int row = 0; row < family.rows; ++row) {
        const size_t bytes = family.packed_bytes(row, &problem);
        if (!family.fits(row, &problem).ok || bytes == 0) continue;
        std::vector<std::byte> now(bytes);
        family.pack(row, &problem, constants, now.data());
        const std::string key =
            fmt::format("{} {} {}", family.row_name(row), family.packing(row, &problem),
                        family.weights_key(&problem));
        const auto [at, fresh] = packed.try_emplace(key, now);
        shared += !fresh;
        EXPECT_EQ(at->second, now) << key << " for " << family.key(&problem);
      }
    }
  }
  EXPECT_GT(shared, 0) << family.name;
}

TEST(Packing, ShapesAndThreadsThatShareAKeyShareBytes) {
  std::vector<Conv2dProblem> convolutions;
  std::vector<ConvTranspose2dProblem> transposed;
  std::vector<GemmProblem> products;
  std::vector<RecurrentProblem> recurrent;
  std::vector<LayerNormProblem> layer_norms;
  std::vector<GroupNormProblem> group_norms;
  std::vector<MatmulIntegerProblem> bytes;
  for (const int64_t size : {1, 2, 5, 7, 20, 56}) {
    for (const int threads : {1, 4}) {
      const Target target{.threads = threads};
      for (const Layout layout : {Layout::kPlain, Layout::kBlocked}) {
        for (const auto& [kernel, stride, groups] :
             {std::tuple{1, 1, 1}, {3, 1, 1}, {3, 2, 1}, {3, 1, 8}, {3, 1, 32}}) {
          convolutions.push_back({.target = target,
                                  .n = 1 + size % 3,
                                  .c = 32,
                                  .h = size,
                                  .w = size + 1,
                                  .k = groups == 1 ? 150 : 32,
                                  .kernel_h = kernel,
                                  .kernel_w = kernel,
                                  .stride_h = stride,
                                  .stride_w = stride,
                                  .pad_top = kernel / 2,
                                  .pad_left = kernel / 2,
                                  .pad_bottom = kernel / 2,
                                  .pad_right = kernel / 2,
                                  .groups = groups,
                                  .x_layout = layout,
                                  .y_layout = layout,
                                  .epilogue = {.bias = true, .residual = size % 2 == 0}});
        }
        transposed.push_back({.target = target,
                              .n = 1 + size % 3,
                              .c = 32,
                              .h = size,
                              .w = size + 1,
                              .k = 40,
                              .kernel_h = 4,
                              .kernel_w = 4,
                              .stride_h = 2,
                              .stride_w = 2,
                              .pad_top = 1,
                              .pad_left = 1,
                              .pad_bottom = 1,
                              .pad_right = 1,
                              .x_layout = layout,
                              .y_layout = layout});
      }
      products.push_back({.target = target,
                          .m = size,
                          .n = 150,
                          .k = 21,
                          .epilogue = {.activation = Activation::kRelu, .bias = true}});
      bytes.push_back(
          {.target = target, .m = size, .n = 150, .k = 21, .is_signed = size % 2 == 0, .bias = 1});
      recurrent.push_back({.target = target, .steps = size, .batch = 2, .inputs = 5, .hidden = 21});
      layer_norms.push_back({.target = target, .m = size, .n = 30});
      group_norms.push_back({.target = target, .n = 2, .c = 30, .hw = size, .groups = 3});
    }
  }
  expect_shared(kConv2d, convolutions);
  expect_shared(kConvTranspose2d, transposed);
  expect_shared(kGemm, products);
  expect_shared(kRecurrent, recurrent);
  expect_shared(kLayerNorm, layer_norms);
  expect_shared(kGroupNorm, group_norms);
  expect_shared(kMatmulInteger, bytes);
}

TEST(Packing, TheTextTellsWidthsApart) {
  EXPECT_EQ(packing_text("conv2d_direct", 1, 16, 12), "conv2d_direct.1.b16.p12");
  EXPECT_NE(packing_text("gemm_panels", 1, 16, 3), packing_text("gemm_panels", 1, 8, 3));
  EXPECT_NE(packing_text("gemm_panels", 1, 16, 3), packing_text("gemm_panels", 2, 16, 3));
}

}  // namespace
}  // namespace stretto::kernels
