#include "stretto/kernels/attention/candidates.h"

namespace stretto::kernels {
namespace attention {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kFlash,
    &kStream,
    &kReference,
};

}  // namespace attention

constinit const Family kAttention =
    make_family<AttentionProblem, attention::kRows, attention::kReference>("attention");

}  // namespace stretto::kernels
