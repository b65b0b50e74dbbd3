#include "stretto/kernels/attention/candidates.h"

namespace stretto::kernels {
namespace attention {

// Best first; the reference is last and fits everything.
constexpr const Row* kRows[] = {
    &kFlash,
    &kReference,
};

}  // namespace attention

constinit const Family kAttention = make_family<AttentionProblem, attention::kRows>("attention");

}  // namespace stretto::kernels
