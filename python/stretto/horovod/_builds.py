"""Horovod's questions about its build. Only Stretto's engine carries data; most answers are no."""


def nothing() -> bool:
  """Whether Horovod was built with some other library. Stretto's own engine carries all data.

  Returns:
    False.
  """
  return False


mpi_built = gloo_built = ddl_built = ccl_built = cuda_built = rocm_built = nothing
mpi_enabled = gloo_enabled = mpi_threads_supported = nothing


def nccl_built() -> int:
  """The version of NCCL that Horovod was built with.

  Returns:
    0: none.
  """
  return 0


def check_extension(*_, **__) -> None:
  """Horovod's check for its extension. Here it does nothing: no extension could be missing."""
