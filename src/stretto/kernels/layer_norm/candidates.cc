#include "stretto/kernels/layer_norm/candidates.h"

namespace stretto::kernels {
namespace layer_norm {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kVector,
    &kReference,
};

}  // namespace layer_norm

constinit const Family kLayerNorm =
    make_family<LayerNormProblem, layer_norm::kRows, layer_norm::kReference>("layer_norm");

}  // namespace stretto::kernels
