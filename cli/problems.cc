#include "problems.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
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

void add_epilogue(Command& command, EpilogueFlags& flags) {
  add_flag(command, "--bias", &flags.bias, "Add a bias per output channel", {.group = kGroup});
  add_flag(command, "--residual", &flags.residual, "Add another tensor of the output's shape",
           {.group = kGroup});
  add_option(command, "--activation", &flags.activation, activation_names(),
             "Function applied at the end", {.group = kGroup, .show_default = true});
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

// Larger problems than these fit no machine, and their sizes could overflow.
constexpr int64_t kLargestWindow = 4096;
constexpr double kMostElements = 1e12;

Shape sizes(std::string_view flag, const std::string& text) {
  try {
    return parse_shape(text);
  } catch (const InvalidArgument&) {
    throw_invalid("{}: expected numbers like 3 or 1x64x56x56, got '{}'", flag, text);
  }
}

void check_sizes(std::string_view flags, std::initializer_list<int64_t> factors) {
  double product = 1;
  for (const int64_t factor : factors) product *= static_cast<double>(factor);
  if (product > kMostElements) {
    throw_invalid("{}: a tensor of {:.0e} elements is too large", flags, product);
  }
}

int32_t in_window(std::string_view flag, int64_t size, int64_t lowest) {
  if (size < lowest || size > kLargestWindow) {
    throw_invalid("{}: {} is not in the range {} to {}", flag, size, lowest, kLargestWindow);
  }
  return static_cast<int32_t>(size);
}

// One number for both axes, or "AxB".
std::pair<int32_t, int32_t> both(std::string_view flag, const std::string& text, int64_t lowest) {
  const Shape parsed = sizes(flag, text);
  if (parsed.empty() || parsed.size() > 2) {
    throw_invalid("{}: expected one number, or two like 3x1, got {}", flag, text);
  }
  return {in_window(flag, parsed.front(), lowest), in_window(flag, parsed.back(), lowest)};
}

// Top, left, bottom and right from "N", "AxB" or "AxBxCxD".
std::array<int32_t, 4> pads(const std::string& text) {
  const Shape parsed = sizes("--pad", text);
  if (parsed.size() != 1 && parsed.size() != 2 && parsed.size() != 4) {
    throw_invalid(
        "--pad: expected same, one number, two like 1x2 (top and bottom, left and right), or four "
        "like 0x0x1x2 (top, left, bottom, right), got {}",
        text);
  }
  std::array<int32_t, 4> all;
  for (size_t i = 0; i < 4; ++i) all[i] = in_window("--pad", parsed[i % parsed.size()], 0);
  return all;
}

Layout layout(std::string_view flag, const std::string& text) {
  for (Layout l : {Layout::kPlain, Layout::kBlocked}) {
    if (layout_name(l) == text) return l;
  }
  throw_invalid("{}: expected plain or blocked, got {}", flag, text);
}

void add(Command& command, const char* names, OptionTarget target, const char* value,
         const char* text, std::optional<Range> range = {}) {
  add_option(command, names, target, value, text,
             {.group = kGroup, .show_default = true, .range = range});
}

struct Conv2dFlags {
  std::string input = "1x64x56x56", kernel = "3", stride = "1", dilation = "1", pad = "same";
  std::string input_layout = "blocked", output_layout = "blocked";
  int64_t channels = 0;
  int32_t groups = 1;
  EpilogueFlags epilogue;
};

// The flags of both directions of convolution.
void add_window(Command& command, const std::shared_ptr<Conv2dFlags>& flags) {
  add(command, "--input", &flags->input, "SHAPE", "Shape of the input, NxCxHxW");
  add(command, "--channels", &flags->channels, "N", "Output channels; 0: as many as the input has",
      Range{0, 1 << 20});
  add(command, "--kernel", &flags->kernel, "N|SIZE", "Size of the window: 3 or 3x1");
  add(command, "--stride", &flags->stride, "N|SIZE", "Steps of the window");
  add(command, "--dilation", &flags->dilation, "N|SIZE", "Distance between the window's elements");
  add(command, "--pad", &flags->pad, "same|N|SIZE",
      "Zeros on each side: 1, 1x2, or 0x0x1x2 for top, left, bottom and right");
  add(command, "--groups", &flags->groups, "N", "Groups of channels", Range{1, 1 << 20});
  add(command, "--input-layout", &flags->input_layout, "plain|blocked",
      "Memory layout of the input");
  add(command, "--output-layout", &flags->output_layout, "plain|blocked",
      "Memory layout of the output");
  add_epilogue(command, flags->epilogue);
}

template <typename P>
P window_problem(const Conv2dFlags& flags, const kernels::Target& target) {
  const Shape x = sizes("--input", flags.input);
  if (x.size() != 4 || std::any_of(x.begin(), x.end(), [](int64_t dim) {
        return dim < 1 || dim > std::numeric_limits<int32_t>::max();
      })) {
    throw_invalid("--input: expected NxCxHxW, each at least 1, got {}", flags.input);
  }
  P p{.target = target, .n = x[0], .c = x[1], .h = x[2], .w = x[3]};
  p.k = flags.channels > 0 ? flags.channels : p.c;
  p.groups = flags.groups;
  if (p.c % p.groups != 0 || p.k % p.groups != 0) {
    throw_invalid("--groups: {} does not divide {} input and {} output channels", p.groups, p.c,
                  p.k);
  }
  std::tie(p.kernel_h, p.kernel_w) = both("--kernel", flags.kernel, 1);
  std::tie(p.stride_h, p.stride_w) = both("--stride", flags.stride, 1);
  std::tie(p.dilation_h, p.dilation_w) = both("--dilation", flags.dilation, 1);
  if (flags.pad == "same") {
    p.pad_top = p.pad_bottom = p.dilation_h * (p.kernel_h - 1) / 2;
    p.pad_left = p.pad_right = p.dilation_w * (p.kernel_w - 1) / 2;
  } else {
    const auto [top, left, bottom, right] = pads(flags.pad);
    p.pad_top = top;
    p.pad_left = left;
    p.pad_bottom = bottom;
    p.pad_right = right;
  }
  check_sizes("--input",
              {p.n, p.c, p.h + p.pad_top + p.pad_bottom, p.w + p.pad_left + p.pad_right});
  check_sizes("--channels and --kernel", {p.k, p.c / p.groups, p.kernel_h, p.kernel_w});
  if (p.out_h() < 1 || p.out_w() < 1) {
    throw_invalid("a {}x{} kernel does not fit an input of {}", p.kernel_h, p.kernel_w,
                  flags.input);
  }
  check_sizes("--input and --channels", {p.n, p.k, p.out_h(), p.out_w()});
  p.x_layout = layout("--input-layout", flags.input_layout);
  p.y_layout = layout("--output-layout", flags.output_layout);
  p.epilogue = epilogue(flags.epilogue);
  return p;
}

std::function<ProblemBytes(const kernels::Target&)> set_up_conv2d(Command& command) {
  auto flags = std::make_shared<Conv2dFlags>();
  add_window(command, flags);
  return [flags](const kernels::Target& target) {
    return problem_bytes(window_problem<kernels::Conv2dProblem>(*flags, target));
  };
}

std::function<ProblemBytes(const kernels::Target&)> set_up_conv_transpose2d(Command& command) {
  auto flags = std::make_shared<Conv2dFlags>();
  flags->kernel = "4";
  flags->stride = "2";
  flags->pad = "1";
  add_window(command, flags);
  return [flags](const kernels::Target& target) {
    return problem_bytes(window_problem<kernels::ConvTranspose2dProblem>(*flags, target));
  };
}

struct GemmFlags {
  int64_t m = 128, n = 768, k = 768;
  bool transposed = false;
  EpilogueFlags epilogue;
};

std::function<ProblemBytes(const kernels::Target&)> set_up_gemm(Command& command) {
  auto flags = std::make_shared<GemmFlags>();
  constexpr Range kSize{1, int64_t{1} << 30};
  add(command, "-m", &flags->m, "N", "Rows of the input", kSize);
  add(command, "-n", &flags->n, "N", "Columns of the weight", kSize);
  add(command, "-k", &flags->k, "N", "Length of the sums", kSize);
  add_flag(command, "--transposed", &flags->transposed, "The weight is stored [n, k]",
           {.group = kGroup});
  add_epilogue(command, flags->epilogue);
  return [flags](const kernels::Target& target) {
    check_sizes("-m and -k", {flags->m, flags->k});
    check_sizes("-k and -n", {flags->k, flags->n});
    check_sizes("-m and -n", {flags->m, flags->n});
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

std::function<ProblemBytes(const kernels::Target&)> set_up_matmul(Command& command) {
  auto flags = std::make_shared<MatmulFlags>();
  constexpr Range kSize{1, int64_t{1} << 24};
  add(command, "--batch", &flags->batch, "N", "Pairs of matrices", kSize);
  add(command, "-m", &flags->m, "N", "Rows of the first", kSize);
  add(command, "-n", &flags->n, "N", "Columns of the second", kSize);
  add(command, "-k", &flags->k, "N", "Length of the sums", kSize);
  add_flag(command, "--transposed", &flags->transposed, "The second is stored [n, k]",
           {.group = kGroup});
  return [flags](const kernels::Target& target) {
    check_sizes("--batch, -m and -k", {flags->batch, flags->m, flags->k});
    check_sizes("--batch, -k and -n", {flags->batch, flags->k, flags->n});
    check_sizes("--batch, -m and -n", {flags->batch, flags->m, flags->n});
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

std::function<ProblemBytes(const kernels::Target&)> set_up_attention(Command& command) {
  auto flags = std::make_shared<AttentionFlags>();
  constexpr Range kSize{1, int64_t{1} << 20};
  add(command, "--batch", &flags->batch, "N", "Sequences", kSize);
  add(command, "--heads", &flags->heads, "N", "Heads", kSize);
  add(command, "--queries", &flags->queries, "N", "Queries per head", kSize);
  add(command, "--keys", &flags->keys, "N", "Keys per head", kSize);
  add(command, "--dim", &flags->dim, "N", "Length of a head's vectors", kSize);
  return [flags](const kernels::Target& target) {
    check_sizes("--batch, --heads, --queries and --dim",
                {flags->batch, flags->heads, flags->queries, flags->dim});
    check_sizes("--batch, --heads, --keys and --dim",
                {flags->batch, flags->heads, flags->keys, flags->dim});
    check_sizes("--batch, --heads, --queries and --keys",
                {flags->batch, flags->heads, flags->queries, flags->keys});
    return problem_bytes(kernels::dense_attention(target, flags->batch, flags->heads,
                                                  flags->queries, flags->keys, flags->dim, true));
  };
}

struct RowFlags {
  int64_t rows = 128, length = 768;
};

template <typename P, typename Fill>
std::function<ProblemBytes(const kernels::Target&)> set_up_rows(Command& command, Fill fill) {
  auto flags = std::make_shared<RowFlags>();
  constexpr Range kSize{1, int64_t{1} << 30};
  add(command, "--rows", &flags->rows, "N", "Rows", kSize);
  add(command, "--length", &flags->length, "N", "Length of a row", kSize);
  return [flags, fill](const kernels::Target& target) {
    check_sizes("--rows and --length", {flags->rows, flags->length});
    P p{.target = target};
    fill(p, *flags);
    return problem_bytes(p);
  };
}

std::function<ProblemBytes(const kernels::Target&)> set_up_softmax(Command& command) {
  return set_up_rows<kernels::SoftmaxProblem>(
      command, [](kernels::SoftmaxProblem& p, const RowFlags& flags) {
        p.outer = flags.rows;
        p.axis = flags.length;
      });
}

std::function<ProblemBytes(const kernels::Target&)> set_up_layer_norm(Command& command) {
  return set_up_rows<kernels::LayerNormProblem>(
      command, [](kernels::LayerNormProblem& p, const RowFlags& flags) {
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
