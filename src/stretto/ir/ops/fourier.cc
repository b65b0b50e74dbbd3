// DFT along one axis, and STFT. Complex numbers are a last axis of two.
#include <complex>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"
#include "stretto/tensor/fourier.h"

namespace stretto::ir::ops {
namespace {

using Complex = std::complex<double>;

constexpr Port kDftInputs[] = {{"input", kRealTypes, Arity::kRequired, 'T'},
                               {"dft_length", kIndexTypes, Arity::kOptional},
                               {"axis", type_bit(DType::kInt64), Arity::kOptional}};
constexpr Port kOutputs[] = {{"output", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kDftAttributes[] = {{"inverse", AttributeKind::kInt},
                                            {"onesided", AttributeKind::kInt}};

struct Plan {
  int64_t axis = 0, length = 0;  // transformed elements
  int64_t kept = 0;              // of the result
  bool inverse = false, onesided = false;
};

Plan plan_of(const Attributes& attributes, const Shape& x, const Tensor* length,
             const Tensor* axis) {
  if (x.size() < 2 || (x.back() != 1 && x.back() != 2)) {
    throw_invalid("input: expected a last axis of 1 (real) or 2 (complex), got shape {}",
                  shape_text(x));
  }
  const auto one = [](const Tensor* tensor, std::string_view what) {
    if (tensor->count() != 1) {
      throw_invalid("{}: expected one value, got shape {}", what, shape_text(tensor->shape()));
    }
    return tensor->as_int64s()[0];
  };
  Plan plan;
  const auto rank = static_cast<int64_t>(x.size());
  plan.axis = normalize_axis(axis == nullptr ? -2 : one(axis, "axis"), rank, "axis");
  if (plan.axis == rank - 1) throw_invalid("axis: the last axis holds complex numbers");
  plan.inverse = attributes.integer("inverse", 0) != 0;
  plan.onesided = attributes.integer("onesided", 0) != 0;
  plan.length = plan.inverse && plan.onesided ? 2 * (x[plan.axis] - 1) : x[plan.axis];
  if (length != nullptr) plan.length = one(length, "dft_length");
  if (plan.length < 1 || plan.length > (int64_t{1} << 30)) {
    throw_invalid("dft_length: expected a positive number, got {}", plan.length);
  }
  plan.kept = plan.onesided && !plan.inverse ? plan.length / 2 + 1 : plan.length;
  return plan;
}

void infer_dft(Inference& c) {
  for (int i = 1; i < 3; ++i) {
    if (c.has_input(i)) c.constant_integers(i, kDftInputs[i].name);
  }
  const Plan plan = plan_of(c.attributes(), c.shape(0), c.constant(1), c.constant(2));
  Shape y = c.shape(0);
  y[plan.axis] = plan.kept;
  y.back() = plan.inverse && plan.onesided ? 1 : 2;
  c.set_output(0, c.dtype(0), std::move(y));
}

void evaluate_dft(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const Plan plan = plan_of(c.attributes, x.shape(), c.has_input(1) ? &c.inputs[1] : nullptr,
                            c.has_input(2) ? &c.inputs[2] : nullptr);
  const Shape& shape = x.shape();
  const int64_t parts = shape.back(), size = shape[plan.axis];
  Shape rows(shape.begin(), shape.end() - 1);
  const AxisView view(rows, plan.axis);
  FourierTransform transform(plan.length);
  with_type<kRealTypes>(x.dtype(), [&]<typename T>() {
    const T* from = data_of<T>(x);
    T* y = data_of<T>(c.make_output(0));
    std::vector<Complex> row(static_cast<size_t>(plan.length));
    for (int64_t r = 0; r < view.outer * view.inner; ++r) {
      const int64_t first = r / view.inner * size * view.inner + r % view.inner;
      const auto element = [&](int64_t i) -> Complex {
        if (i >= size) return 0;
        const T* p = from + (first + i * view.inner) * parts;
        return {static_cast<double>(p[0]), parts == 2 ? static_cast<double>(p[1]) : 0};
      };
      for (int64_t i = 0; i < plan.length; ++i) {
        // The half that a one-sided spectrum leaves out mirrors the other.
        const bool mirrored = plan.inverse && plan.onesided && i > plan.length / 2;
        row[i] = mirrored ? std::conj(element(plan.length - i)) : element(i);
      }
      transform.run(row.data(), plan.inverse);
      const double scale = plan.inverse ? 1 / static_cast<double>(plan.length) : 1;
      const int64_t out = r / view.inner * plan.kept * view.inner + r % view.inner;
      for (int64_t i = 0; i < plan.kept; ++i) {
        const int64_t at = out + i * view.inner;
        if (plan.inverse && plan.onesided) {
          y[at] = static_cast<T>(row[i].real() * scale);
        } else {
          y[2 * at] = static_cast<T>(row[i].real() * scale);
          y[2 * at + 1] = static_cast<T>(row[i].imag() * scale);
        }
      }
    }
  });
}

constexpr Port kStftInputs[] = {{"signal", kRealTypes, Arity::kRequired, 'T'},
                                {"frame_step", kIndexTypes},
                                {"window", kRealTypes, Arity::kOptional, 'T'},
                                {"frame_length", kIndexTypes, Arity::kOptional}};
constexpr AttributeSpec kStftAttributes[] = {{"onesided", AttributeKind::kInt}};

struct Frames {
  int64_t step = 1, length = 1, count = 1, kept = 1;
};

Frames frames_of(const Attributes& attributes, const Shape& signal, int64_t step,
                 const Shape* window, const Tensor* length) {
  const bool real = signal.size() == 2;  // as PyTorch's exporter writes it
  if (!real && (signal.size() != 3 || (signal[2] != 1 && signal[2] != 2))) {
    throw_invalid("signal: expected shape [batch, length] or [batch, length, 1 or 2], got {}",
                  shape_text(signal));
  }
  if (window == nullptr && length == nullptr) {
    throw_invalid("frame_length: expected it or a window");
  }
  Frames frames{.step = step};
  if (length != nullptr) {
    if (length->count() != 1) throw_invalid("frame_length: expected one value");
    frames.length = length->as_int64s()[0];
  } else if (window->size() == 1) {
    frames.length = (*window)[0];
  }
  if (window != nullptr && *window != Shape{frames.length}) {
    throw_invalid("window: expected {} values, one per element of a frame, got shape {}",
                  frames.length, shape_text(*window));
  }
  if (step < 1 || frames.length < 1 || frames.length > signal[1]) {
    throw_invalid("frames of {} elements, {} apart, in a signal of {}", frames.length, step,
                  signal[1]);
  }
  const bool onesided = attributes.integer("onesided", 1) != 0;
  if (onesided && !real && signal[2] == 2)
    throw_invalid("onesided: the spectrum of a complex signal is not");
  frames.count = (signal[1] - frames.length) / step + 1;
  frames.kept = onesided ? frames.length / 2 + 1 : frames.length;
  return frames;
}

void infer_stft(Inference& c) {
  const std::vector<int64_t> step = c.constant_integers(1, "frame_step");
  if (step.size() != 1) throw_invalid("frame_step: expected one value");
  if (c.has_input(3)) c.constant_integers(3, "frame_length");
  const Frames frames = frames_of(c.attributes(), c.shape(0), step[0],
                                  c.has_input(2) ? &c.shape(2) : nullptr, c.constant(3));
  c.set_output(0, c.dtype(0), {c.shape(0)[0], frames.count, frames.kept, 2});
}

void evaluate_stft(Evaluation& c) {
  const Tensor& signal = c.inputs[0];
  const Frames frames = frames_of(c.attributes, signal.shape(), c.inputs[1].as_int64s()[0],
                                  c.has_input(2) ? &c.inputs[2].shape() : nullptr,
                                  c.has_input(3) ? &c.inputs[3] : nullptr);
  FourierTransform transform(frames.length);
  const std::vector<double> window =
      c.has_input(2) ? c.inputs[2].as_doubles()
                     : std::vector<double>(static_cast<size_t>(frames.length), 1);
  with_type<kRealTypes>(signal.dtype(), [&]<typename T>() {
    T* y = data_of<T>(c.make_output(0));
    const int64_t parts = signal.rank() == 3 ? signal.dim(2) : 1;
    std::vector<Complex> row(static_cast<size_t>(frames.length));
    for (int64_t at = 0; at < signal.dim(0) * frames.count; ++at) {
      const int64_t batch = at / frames.count, frame = at % frames.count;
      const T* from = data_of<T>(signal) + (batch * signal.dim(1) + frame * frames.step) * parts;
      for (int64_t i = 0; i < frames.length; ++i) {
        row[i] = window[i] * Complex(static_cast<double>(from[i * parts]),
                                     parts == 2 ? static_cast<double>(from[i * parts + 1]) : 0);
      }
      transform.run(row.data(), false);
      for (int64_t i = 0; i < frames.kept; ++i) {
        *y++ = static_cast<T>(row[i].real());
        *y++ = static_cast<T>(row[i].imag());
      }
    }
  });
}

}  // namespace

const Operator kDFT{.name = "DFT",
                    .inputs = kDftInputs,
                    .outputs = kOutputs,
                    .attributes = kDftAttributes,
                    .infer = infer_dft,
                    .evaluate = evaluate_dft};

const Operator kSTFT{.name = "STFT",
                     .inputs = kStftInputs,
                     .outputs = kOutputs,
                     .attributes = kStftAttributes,
                     .infer = infer_stft,
                     .evaluate = evaluate_stft};

}  // namespace stretto::ir::ops
