// NonMaxSuppression of values that only a run knows.
#include "stretto/base/error.h"
#include "stretto/ir/host/host.h"
#include "stretto/ir/ops/non_max_suppression.h"

namespace stretto::ir {

void host_non_max_suppression(HostCall& call) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    inputs.push_back(call.has_input(i) ? call.tensor(i) : Tensor());
  }
  if (inputs.size() < 2) call.fail("expected boxes and scores");
  for (size_t i = 0; i < 2; ++i) {
    if (!inputs[i].defined() || !is_float(inputs[i].dtype())) {
      call.fail(fmt::format("{}: expected floats", i == 0 ? "boxes" : "scores"));
    }
  }
  try {
    const std::vector<int64_t> rows =
        non_max_suppression(inputs, call.attributes.integer("center_point_box", 0) != 0);
    call.outputs[0] = Tensor::of<int64_t>({static_cast<int64_t>(rows.size()) / 3, 3}, rows);
  } catch (const InvalidArgument& error) {
    call.fail(error.what());
  }
}

}  // namespace stretto::ir
