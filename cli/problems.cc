#include "problems.h"

#include <CLI/CLI.hpp>

#include <memory>

#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/gemm/problem.h"

namespace stretto::cli {
namespace {

using kernels::Activation;
using kernels::Epilogue;

struct EpilogueFlags {
  bool bias = false, residual = false;
  std::string activation = "none";
};

void add_epilogue(CLI::App& app, EpilogueFlags& flags) {
  app.add_flag("--bias", flags.bias, "Add a bias per output channel");
  app.add_flag("--residual", flags.residual, "Add another tensor of the output's shape");
  app.add_option("--activation", flags.activation, "relu, silu, gelu, ...");
}

Epilogue epilogue(const EpilogueFlags& flags) {
  Epilogue e;
  e.bias = flags.bias;
  e.residual = flags.residual;
  std::string known;
  for (int i = 0; i <= static_cast<int>(Activation::kElu); ++i) {
    const auto activation = static_cast<Activation>(i);
    const std::string name(kernels::activation_name(activation));
    if (name == flags.activation || (i == 0 && flags.activation == "none")) {
      e.activation = activation;
      return e;
    }
    known += " " + name;
  }
  throw_invalid("--activation: expected one of{}, got {}", known, flags.activation);
}

// One number for both axes, or "AxB".
std::pair<int32_t, int32_t> both(std::string_view flag, const std::string& text) {
  const Shape parsed = parse_shape(text);
  if (parsed.empty() || parsed.size() > 2) {
    throw_invalid("{}: expected a number or two like 3x1, got {}", flag, text);
  }
  return {static_cast<int32_t>(parsed.front()), static_cast<int32_t>(parsed.back())};
}

Layout layout(std::string_view flag, const std::string& text) {
  for (Layout l : {Layout::kPlain, Layout::kBlocked}) {
    if (layout_name(l) == text) return l;
  }
  throw_invalid("{}: expected plain or blocked, got {}", flag, text);
}

struct Conv2dFlags {
  std::string input = "1x64x56x56", kernel = "3", stride = "1", dilation = "1", pad = "same";
  std::string input_layout = "blocked", output_layout = "blocked";
  int64_t channels = 0;
  int32_t groups = 1;
  EpilogueFlags epilogue;
};

std::function<ProblemBytes(const kernels::Target&)> set_up_conv2d(CLI::App& app) {
  auto flags = std::make_shared<Conv2dFlags>();
  app.add_option("--input", flags->input, "NxCxHxW")->capture_default_str();
  app.add_option("--channels", flags->channels, "Output channels (0: as many as the input has)");
  app.add_option("--kernel", flags->kernel, "HxW, or one number")->capture_default_str();
  app.add_option("--stride", flags->stride)->capture_default_str();
  app.add_option("--dilation", flags->dilation)->capture_default_str();
  app.add_option("--pad", flags->pad, "On each side: a number, HxW, or same")
      ->capture_default_str();
  app.add_option("--groups", flags->groups)->capture_default_str()->check(CLI::Range(1, 1 << 20));
  app.add_option("--input-layout", flags->input_layout, "plain or blocked")->capture_default_str();
  app.add_option("--output-layout", flags->output_layout, "plain or blocked")
      ->capture_default_str();
  add_epilogue(app, flags->epilogue);
  return [flags](const kernels::Target& target) {
    const Shape x = parse_shape(flags->input);
    if (x.size() != 4) throw_invalid("--input: expected NxCxHxW, got {}", flags->input);
    kernels::Conv2dProblem p{.target = target, .n = x[0], .c = x[1], .h = x[2], .w = x[3]};
    p.k = flags->channels > 0 ? flags->channels : p.c;
    p.groups = flags->groups;
    if (p.c % p.groups != 0 || p.k % p.groups != 0) {
      throw_invalid("--groups: {} divides {} input and {} output channels unevenly", p.groups, p.c,
                    p.k);
    }
    std::tie(p.kernel_h, p.kernel_w) = both("--kernel", flags->kernel);
    std::tie(p.stride_h, p.stride_w) = both("--stride", flags->stride);
    std::tie(p.dilation_h, p.dilation_w) = both("--dilation", flags->dilation);
    if (flags->pad == "same") {
      p.pad_top = p.pad_bottom = p.dilation_h * (p.kernel_h - 1) / 2;
      p.pad_left = p.pad_right = p.dilation_w * (p.kernel_w - 1) / 2;
    } else {
      std::tie(p.pad_top, p.pad_left) = both("--pad", flags->pad);
      p.pad_bottom = p.pad_top;
      p.pad_right = p.pad_left;
    }
    if (p.kernel_h < 1 || p.kernel_w < 1 || p.stride_h < 1 || p.stride_w < 1 || p.dilation_h < 1 ||
        p.dilation_w < 1 || p.out_h() < 1 || p.out_w() < 1) {
      throw_invalid("conv2d: a {}x{} kernel does not fit an input of {}", p.kernel_h, p.kernel_w,
                    flags->input);
    }
    p.x_layout = layout("--input-layout", flags->input_layout);
    p.y_layout = layout("--output-layout", flags->output_layout);
    p.epilogue = epilogue(flags->epilogue);
    return problem_bytes(p);
  };
}

struct GemmFlags {
  int64_t m = 128, n = 768, k = 768;
  bool transposed = false;
  EpilogueFlags epilogue;
};

std::function<ProblemBytes(const kernels::Target&)> set_up_gemm(CLI::App& app) {
  auto flags = std::make_shared<GemmFlags>();
  const auto size = CLI::Range(int64_t{1}, int64_t{1} << 30);
  app.add_option("-m", flags->m, "Rows of the input")->capture_default_str()->check(size);
  app.add_option("-n", flags->n, "Columns of the weight")->capture_default_str()->check(size);
  app.add_option("-k", flags->k, "Length of the sums")->capture_default_str()->check(size);
  app.add_flag("--transposed", flags->transposed, "The weight is stored [n, k]");
  add_epilogue(app, flags->epilogue);
  return [flags](const kernels::Target& target) {
    kernels::GemmProblem p{.target = target, .m = flags->m, .n = flags->n, .k = flags->k};
    p.transposed = flags->transposed;
    p.epilogue = epilogue(flags->epilogue);
    return problem_bytes(p);
  };
}

}  // namespace

std::span<const ProblemKind> problem_kinds() {
  static constexpr ProblemKind kKinds[] = {
      {"conv2d", set_up_conv2d},
      {"gemm", set_up_gemm},
  };
  return kKinds;
}

}  // namespace stretto::cli
