#include "stretto/kernels/access.h"
#include "stretto/kernels/resize/candidates.h"

namespace stretto::kernels::resize {
namespace {

Fit fits(const ResizeProblem&) { return Fit::yes(0.001); }

template <typename T>
void run_as(const ResizeProblem& p, const Args& args, const Worker& worker) {
  const Access from({p.n, p.c, p.h, p.w}, p.layout, p.target.block());
  const Access to({p.n, p.c, p.out_h, p.out_w}, p.layout, p.target.block());
  const T* x = static_cast<const T*>(args.inputs[0]);
  T* y = static_cast<T*>(args.outputs[0]);
  const Range planes = split(p.n * p.c, worker);
  for (int64_t nc = planes.begin; nc < planes.end; ++nc) {
    const int64_t n = nc / p.c, c = nc % p.c;
    for (int64_t oy = 0; oy < p.out_h; ++oy) {
      const ResizeTaps rows = resize_taps(p, oy, p.h, p.out_h, p.scale_h);
      for (int64_t ox = 0; ox < p.out_w; ++ox) {
        const ResizeTaps columns = resize_taps(p, ox, p.w, p.out_w, p.scale_w);
        double sum = 0;
        for (int i = 0; i < p.taps(); ++i) {
          for (int j = 0; j < p.taps(); ++j) {
            sum += rows.weight[i] * columns.weight[j] *
                   x[from.at(n, c, rows.index[i], columns.index[j])];
          }
        }
        y[to.at(n, c, oy, ox)] = static_cast<T>(sum);
      }
    }
  }
}

void run(const ResizeProblem& p, const Args& args, const Worker& worker) {
  switch (p.dtype) {
    case DType::kUInt8:
      return run_as<uint8_t>(p, args, worker);
    case DType::kInt8:
      return run_as<int8_t>(p, args, worker);
    default:
      return run_as<float>(p, args, worker);
  }
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::resize
