"""Horovod's questions about its build. Only Stretto's engine carries data; most answers are no."""

from stretto._errors import InvalidArgumentError


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


def start_timeline(file_name: str, mark_cycles: bool = False) -> None:
  """Horovod's way to start a timeline in the middle of a job, which Stretto does not have.

  Args:
    file_name: not used.
    mark_cycles: not used.

  Raises:
    InvalidArgumentError: always; the text says how to get a timeline.
  """
  raise InvalidArgumentError(
      "start_timeline: timelines begin with the job: set STRETTO_TRACE (or "
      "HOROVOD_TIMELINE) to a file, or use stretto run --trace FILE")


def stop_timeline() -> None:
  """Does nothing: the timeline is written at the end of the job."""
