"""What Horovod says about how it was built: here nothing but Stretto's own engine carries data."""


def nothing() -> bool:
  return False


mpi_built = gloo_built = ddl_built = ccl_built = cuda_built = rocm_built = nothing
mpi_enabled = gloo_enabled = mpi_threads_supported = nothing


def nccl_built() -> int:
  """NCCL's version; 0: none."""
  return 0


def check_extension(*_, **__) -> None:
  """There is no extension that could be missing."""


def start_timeline(file_name: str, mark_cycles: bool = False) -> None:
  raise ValueError("start_timeline: timelines begin with the job: set STRETTO_TRACE (or "
                   "HOROVOD_TIMELINE) to a file, or use stretto run --trace FILE")


def stop_timeline() -> None:
  """It is written at the end of the job."""
