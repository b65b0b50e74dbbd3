#include "stretto/kernels/recurrent/candidates.h"

namespace stretto::kernels {
namespace recurrent {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kSteps,
    &kReference,
};

}  // namespace recurrent

constinit const Family kRecurrent =
    make_family<RecurrentProblem, recurrent::kRows, recurrent::kReference>("recurrent");

}  // namespace stretto::kernels
