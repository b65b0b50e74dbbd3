#include "problems.h"

#include <CLI/CLI.hpp>

#include <memory>

#include "stretto/kernels/attention/problem.h"
#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/conv_transpose2d/problem.h"
#include "stretto/kernels/gemm/problem.h"
#include "stretto/kernels/layer_norm/problem.h"
#include "stretto/kernels/matmul/problem.h"
#include "stretto/kernels/softmax/problem.h"

namespace stretto::cli {
namespace {

using kernels::Epilogue;

constexpr const char* kGroup = "Problem";

struct EpilogueFlags {
  bool bias = false, residual = false;
  std::string activation = "none";
};

// "none|relu|clip..."
std::string activation_names() {
  std::string names;
  for (const Activation activation : activations()) {
    names += (names.empty() ? "" : "|") + std::string(activation_name(activation));
  }
  return names;
}

void add_epilogue(CLI::App& app, EpilogueFlags& flags) {
  app.add_flag("--bias", flags.bias, "Add a bias per output channel")->group(kGroup);
  app.add_flag("--residual", flags.residual, "Add another tensor of the output's shape")
      ->group(kGroup);
  app.add_option("--activation", flags.activation, "Function applied at the end")
      ->type_name(activation_names())
      ->group(kGroup)
      ->capture_default_str();
}

Epilogue epilogue(const EpilogueFlags& flags) {
  Epilogue e;
  e.bias = flags.bias;
  e.residual = flags.residual;
  const auto activation = parse_activation(flags.activation);
  if (!activation) {
    throw_invalid("--activation: expected one of {}, got {}", activation_names(), flags.activation);
  }
  e.activation = *activation;
  return e;
}

// One number for both axes, or "AxB".
std::pair<int32_t, int32_t> both(std::string_view flag, const std::string& text) {
  const Shape parsed = parse_shape(text);
  if (parsed.empty() || parsed.size() > 2) {
    throw_invalid("{}: expected one number, or two like 3x1, got {}", flag, text);
  }
  return {static_cast<int32_t>(parsed.front()), static_cast<int32_t>(parsed.back())};
}

Layout layout(std::string_view flag, const std::string& text) {
  for (Layout l : {Layout::kPlain, Layout::kBlocked}) {
    if (layout_name(l) == text) return l;
  }
  throw_invalid("{}: expected plain or blocked, got {}", flag, text);
}

template <typename T>
CLI::Option* add(CLI::App& app, const char* name, T& value, const char* kind, const char* text) {
  return app.add_option(name, value, text)->type_name(kind)->group(kGroup)->capture_default_str();
}

struct Conv2dFlags {
  std::string input = "1x64x56x56", kernel = "3", stride = "1", dilation = "1", pad = "same";
  std::string input_layout = "blocked", output_layout = "blocked";
  int64_t channels = 0;
  int32_t groups = 1;
  EpilogueFlags epilogue;
};

// The flags of both directions of convolution.
void add_window(CLI::App& app, const std::shared_ptr<Conv2dFlags>& flags) {
  add(app, "--input", flags->input, "SHAPE", "Shape of the input, NxCxHxW");
  add(app, "--channels", flags->channels, "N", "Output channels; 0: as many as the input has");
  add(app, "--kernel", flags->kernel, "N|SIZE", "Size of the window: 3 or 3x1");
  add(app, "--stride", flags->stride, "N|SIZE", "Steps of the window");
  add(app, "--dilation", flags->dilation, "N|SIZE", "Distance between the window's elements");
  add(app, "--pad", flags->pad, "same|N|SIZE", "Zeros on each side");
  add(app, "--groups", flags->groups, "N", "Groups of channels")->check(CLI::Range(1, 1 << 20));
  add(app, "--input-layout", flags->input_layout, "plain|blocked", "Memory layout of the input");
  add(app, "--output-layout", flags->output_layout, "plain|blocked", "Memory layout of the output");
  add_epilogue(app, flags->epilogue);
}

template <typename P>
P window_problem(const Conv2dFlags& flags, const kernels::Target& target) {
  const Shape x = parse_shape(flags.input);
  if (x.size() != 4) throw_invalid("--input: expected NxCxHxW, got {}", flags.input);
  P p{.target = target, .n = x[0], .c = x[1], .h = x[2], .w = x[3]};
  p.k = flags.channels > 0 ? flags.channels : p.c;
  p.groups = flags.groups;
  if (p.c % p.groups != 0 || p.k % p.groups != 0) {
    throw_invalid("--groups: {} does not divide {} input and {} output channels", p.groups, p.c,
                  p.k);
  }
  std::tie(p.kernel_h, p.kernel_w) = both("--kernel", flags.kernel);
  std::tie(p.stride_h, p.stride_w) = both("--stride", flags.stride);
  std::tie(p.dilation_h, p.dilation_w) = both("--dilation", flags.dilation);
  if (flags.pad == "same") {
    p.pad_top = p.pad_bottom = p.dilation_h * (p.kernel_h - 1) / 2;
    p.pad_left = p.pad_right = p.dilation_w * (p.kernel_w - 1) / 2;
  } else {
    std::tie(p.pad_top, p.pad_left) = both("--pad", flags.pad);
    p.pad_bottom = p.pad_top;
    p.pad_right = p.pad_left;
  }
  if (p.kernel_h < 1 || p.kernel_w < 1 || p.stride_h < 1 || p.stride_w < 1 || p.dilation_h < 1 ||
      p.dilation_w < 1 || p.out_h() < 1 || p.out_w() < 1) {
    throw_invalid("a {}x{} kernel does not fit an input of {}", p.kernel_h, p.kernel_w,
                  flags.input);
  }
  p.x_layout = layout("--input-layout", flags.input_layout);
  p.y_layout = layout("--output-layout", flags.output_layout);
  p.epilogue = epilogue(flags.epilogue);
  return p;
}

std::function<ProblemBytes(const kernels::Target&)> set_up_conv2d(CLI::App& app) {
  auto flags = std::make_shared<Conv2dFlags>();
  add_window(app, flags);
  return [flags](const kernels::Target& target) {
    return problem_bytes(window_problem<kernels::Conv2dProblem>(*flags, target));
  };
}

std::function<ProblemBytes(const kernels::Target&)> set_up_conv_transpose2d(CLI::App& app) {
  auto flags = std::make_shared<Conv2dFlags>();
  flags->kernel = "4";
  flags->stride = "2";
  flags->pad = "1";
  add_window(app, flags);
  return [flags](const kernels::Target& target) {
    return problem_bytes(window_problem<kernels::ConvTranspose2dProblem>(*flags, target));
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
  add(app, "-m", flags->m, "N", "Rows of the input")->check(size);
  add(app, "-n", flags->n, "N", "Columns of the weight")->check(size);
  add(app, "-k", flags->k, "N", "Length of the sums")->check(size);
  app.add_flag("--transposed", flags->transposed, "The weight is stored [n, k]")->group(kGroup);
  add_epilogue(app, flags->epilogue);
  return [flags](const kernels::Target& target) {
    kernels::GemmProblem p{.target = target, .m = flags->m, .n = flags->n, .k = flags->k};
    p.transposed = flags->transposed;
    p.epilogue = epilogue(flags->epilogue);
    return problem_bytes(p);
  };
}

struct MatmulFlags {
  int64_t batch = 12, m = 128, n = 128, k = 64;
  bool transposed = false;
};

std::function<ProblemBytes(const kernels::Target&)> set_up_matmul(CLI::App& app) {
  auto flags = std::make_shared<MatmulFlags>();
  const auto size = CLI::Range(int64_t{1}, int64_t{1} << 24);
  add(app, "--batch", flags->batch, "N", "Pairs of matrices")->check(size);
  add(app, "-m", flags->m, "N", "Rows of the first")->check(size);
  add(app, "-n", flags->n, "N", "Columns of the second")->check(size);
  add(app, "-k", flags->k, "N", "Length of the sums")->check(size);
  app.add_flag("--transposed", flags->transposed, "The second is stored [n, k]")->group(kGroup);
  return [flags](const kernels::Target& target) {
    kernels::MatmulProblem p{.target = target};
    p.rank = 1;
    p.batch[0] = flags->batch;
    p.m = flags->m;
    p.n = flags->n;
    p.k = flags->k;
    p.transposed = flags->transposed;
    return problem_bytes(p);
  };
}

struct AttentionFlags {
  int64_t batch = 1, heads = 12, queries = 128, keys = 128, dim = 64;
};

std::function<ProblemBytes(const kernels::Target&)> set_up_attention(CLI::App& app) {
  auto flags = std::make_shared<AttentionFlags>();
  const auto size = CLI::Range(int64_t{1}, int64_t{1} << 20);
  add(app, "--batch", flags->batch, "N", "Sequences")->check(size);
  add(app, "--heads", flags->heads, "N", "Heads")->check(size);
  add(app, "--queries", flags->queries, "N", "Queries per head")->check(size);
  add(app, "--keys", flags->keys, "N", "Keys per head")->check(size);
  add(app, "--dim", flags->dim, "N", "Length of a head's vectors")->check(size);
  return [flags](const kernels::Target& target) {
    return problem_bytes(kernels::dense_attention(target, flags->batch, flags->heads,
                                                  flags->queries, flags->keys, flags->dim, true));
  };
}

struct RowFlags {
  int64_t rows = 128, length = 768;
};

template <typename P, typename Fill>
std::function<ProblemBytes(const kernels::Target&)> set_up_rows(CLI::App& app, Fill fill) {
  auto flags = std::make_shared<RowFlags>();
  const auto size = CLI::Range(int64_t{1}, int64_t{1} << 30);
  add(app, "--rows", flags->rows, "N", "Rows")->check(size);
  add(app, "--length", flags->length, "N", "Length of a row")->check(size);
  return [flags, fill](const kernels::Target& target) {
    P p{.target = target};
    fill(p, *flags);
    return problem_bytes(p);
  };
}

std::function<ProblemBytes(const kernels::Target&)> set_up_softmax(CLI::App& app) {
  return set_up_rows<kernels::SoftmaxProblem>(
      app, [](kernels::SoftmaxProblem& p, const RowFlags& flags) {
        p.outer = flags.rows;
        p.axis = flags.length;
      });
}

std::function<ProblemBytes(const kernels::Target&)> set_up_layer_norm(CLI::App& app) {
  return set_up_rows<kernels::LayerNormProblem>(
      app, [](kernels::LayerNormProblem& p, const RowFlags& flags) {
        p.m = flags.rows;
        p.n = flags.length;
      });
}

}  // namespace

std::span<const ProblemKind> problem_kinds() {
  static constexpr ProblemKind kKinds[] = {
      {"attention", set_up_attention},
      {"conv2d", set_up_conv2d},
      {"conv_transpose2d", set_up_conv_transpose2d},
      {"gemm", set_up_gemm},
      {"layer_norm", set_up_layer_norm},
      {"matmul", set_up_matmul},
      {"softmax", set_up_softmax},
  };
  return kKinds;
}

}  // namespace stretto::cli
