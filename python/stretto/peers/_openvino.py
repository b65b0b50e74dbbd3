"""OpenVINO's CPU plugin. By default it computes in bf16 where the CPU can, so its default setting
is another numeric class and usually fails the check."""

from __future__ import annotations

import os

from stretto.peers import Cap, Run, Task

PACKAGES = ("openvino",)
# Matrix products that may stay above an instruction set cap before the engine counts as uncapped: a
# classifier's last layer is one of 54 and a thousandth of the work.
UNCAPPED_SHARE = 0.1


def refuses(task: Task) -> str | None:
  return None


def cap(isa: str) -> Cap:
  return Cap({"ONEDNN_MAX_CPU_ISA": isa.upper()})


def load(task: Task) -> Run:
  import openvino as ov

  settings = {"INFERENCE_NUM_THREADS": task.threads}
  if task.setting == "best":
    settings |= {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
                 "INFERENCE_PRECISION_HINT": "f32"}
  core = ov.Core()
  model = core.read_model(str(task.model))
  model.reshape({name: list(value.shape) for name, value in task.inputs.items()})
  compiled = core.compile_model(model, "CPU", settings)
  request = compiled.create_infer_request()
  for name, value in task.inputs.items():
    request.set_tensor(name, ov.Tensor(value, shared_memory=True))

  def run():
    request.infer()
    return [request.get_output_tensor(i).data for i in range(len(task.outputs))]

  if "ONEDNN_MAX_CPU_ISA" in os.environ:
    run.uncapped = uncapped(compiled)
  return run


def uncapped(compiled) -> str | None:
  """oneDNN obeys the cap, OpenVINO's copy of MLAS, which takes fp32 matrix products, does not."""
  total = beyond = 0
  for node in compiled.get_runtime_model().get_ordered_ops():
    info = node.get_rt_info()
    layer, primitive = (info[key].astype(str) if key in info else ""
                        for key in ("layerType", "primitiveType"))
    if layer in ("Convolution", "Deconvolution", "FullyConnected", "MatMul"):
      total += 1
      beyond += "mlas" in primitive
  if beyond <= UNCAPPED_SHARE * total:
    return None
  return f"{beyond} of {total} matrix products run in its copy of MLAS, which takes no cap"
