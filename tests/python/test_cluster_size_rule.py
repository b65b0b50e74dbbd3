"""The expressions of the admission policy that `stretto cluster compile` writes, evaluated: which
jobs and JobSets Kubernetes takes into which queue."""

from pathlib import Path

import pytest
import yaml

celpy = pytest.importorskip("celpy", reason="celpy is not installed")

GOLDEN = Path(__file__).parents[1] / "cluster/golden"
QUEUE = "kueue.x-k8s.io/queue-name"


class Authorizer:
  """Kubernetes' `authorizer`: each call gives the next, and the last one the answer."""

  def __init__(self, allowed):
    self.allowed, self.asked = allowed, []

  def ask(self, *words):
    self.asked += [str(word) for word in words]
    return self


# What Kubernetes has beyond the language.
FUNCTIONS = {
  "sum": lambda values: sum(values, celpy.celtypes.IntType(0)),
  **{name: Authorizer.ask for name in ("group", "resource", "subresource", "namespace", "check")},
  "allowed": lambda authorizer: celpy.celtypes.BoolType(authorizer.allowed),
}


def evaluate(expression, known):
  environment = celpy.Environment()
  program = environment.program(environment.compile(expression), functions=FUNCTIONS)
  return program.evaluate(known)


def policy_of(site):
  documents = yaml.safe_load_all((GOLDEN / site / "kubernetes/size-rule.yaml").read_text())
  [policy] = [each for each in documents if each["kind"] == "ValidatingAdmissionPolicy"]
  return policy["spec"]


def refusals(site, given, before=None, authorizer=None):
  """The messages with which Kubernetes refuses the object; none: it takes it."""
  spec = policy_of(site)
  known = {"object": celpy.json_to_cel(given), "oldObject": celpy.json_to_cel(before or {}),
           "request": celpy.json_to_cel({"operation": "UPDATE" if before else "CREATE",
                                         "namespace": given["metadata"].get("namespace", "team")}),
           "authorizer": authorizer or Authorizer(False)}
  if not all(evaluate(each["expression"], known) for each in spec["matchConditions"]):
    return []
  variables = celpy.celtypes.MapType()
  for each in spec["variables"]:
    variables[celpy.celtypes.StringType(each["name"])] = evaluate(each["expression"], known)
  known["variables"] = variables
  return [each["message"] for each in spec["validations"]
          if not evaluate(each["expression"], known)]


def pods(*chips, resource="nvidia.com/gpu"):
  """A pod with a container for each number of chips; None: one without resources."""
  return {"spec": {"containers": [{"name": f"c{i}"} if count is None else
                                  {"name": f"c{i}", "resources": {"limits": {resource: count}}}
                                  for i, count in enumerate(chips)]}}


def job(queue, template, parallelism=None, **metadata):
  spec = {"template": template}
  if parallelism is not None:
    spec["parallelism"] = parallelism
  return {"apiVersion": "batch/v1", "kind": "Job", "spec": spec,
          "metadata": {"name": "j", "labels": {QUEUE: queue} if queue else {"app": "x"}} | metadata}


def jobset(queue, *parts):
  """Of parts (replicas, parallelism, pod)."""
  replicated = []
  for replicas, parallelism, template in parts:
    part = {"name": "p", "template": {"spec": {"template": template}}}
    if replicas is not None:
      part["replicas"] = replicas
    if parallelism is not None:
      part["template"]["spec"]["parallelism"] = parallelism
    replicated.append(part)
  return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
          "metadata": {"name": "s", "labels": {QUEUE: queue}},
          "spec": {"replicatedJobs": replicated}}


SINGLE, MULTI = "queue normal-single is for jobs of 1 chips", \
                "queue normal-multi is for jobs of 2 chips or more"


@pytest.mark.parametrize("given, expected", [
  (job("normal-single", pods(1)), []),
  (job("normal-single", pods("1")), []),  # a quantity is a text as well
  (job("normal-single", pods(1), 1), []),
  (job("normal-single", pods(1), 2), [SINGLE]),
  (job("normal-single", pods(1, 1)), [SINGLE]),
  (job("normal-single", pods(1, None)), []),
  (job("normal-single", pods(None)), [SINGLE]),
  (job("normal-single", pods(1, resource="cpu")), [SINGLE]),
  (job("normal-multi", pods(1)), [MULTI]),
  (job("normal-multi", pods(1), 2), []),
  (job("normal-multi", pods("8"), 3), []),
  (job("normal-multi", pods(8), 0), [MULTI]),
  (job("urgent-multi", pods(1)), ["queue urgent-multi is for jobs of 2 chips or more"]),
  (job("of-somebody-else", pods(64), 64), []),  # no queue of this site
  (job(None, pods(64)), []),  # Kueue has nothing to do with it
  (job(None, pods(64), labels=None) | {"metadata": {"name": "j"}}, []),
  (jobset("normal-single", (None, None, pods(1))), []),
  (jobset("normal-single", (2, None, pods(1))), [SINGLE]),
  (jobset("normal-multi", (2, None, pods(1))), []),
  (jobset("normal-multi", (None, 2, pods(1))), []),
  (jobset("normal-multi", (1, 1, pods(1)), (1, 1, pods(1))), []),  # of two kinds together
  (jobset("normal-multi", (1, 1, pods(1)), (1, 1, pods(None))), [MULTI]),
])
def test_a_job_may_use_the_queue_of_its_size(given, expected):
  assert refusals("three_kinds", given) == expected


ASCEND = "huawei.com/Ascend910"


@pytest.mark.parametrize("given, expected", [
  (jobset("day-small", (1, 2, pods(1)), (1, 2, pods(1, resource=ASCEND))), []),
  (jobset("day-small", (1, 2, pods(1)), (1, 3, pods(1, resource=ASCEND))),
   ["queue day-small is for jobs of 1 to 4 chips"]),
  (job("day-large", pods(5, resource=ASCEND)), []),
  (job("day-no-chips", pods(None)), []),
  (job("day-no-chips", pods(2, resource="cpu"), 9), []),
  (job("day-no-chips", pods(1)), ["queue day-no-chips is for jobs of no chips"]),
])
def test_chips_of_all_kinds_count(given, expected):
  assert refusals("unlike", given) == expected


def test_a_job_is_checked_when_it_comes_into_a_queue_and_not_later():
  wrong = job("normal-single", pods(8))
  assert refusals("three_kinds", wrong, before=job(None, pods(8))) == [SINGLE]
  assert refusals("three_kinds", wrong, before=job("normal-multi", pods(8))) == [SINGLE]
  assert refusals("three_kinds", wrong, before=wrong) == []
  without_labels = job(None, pods(8)) | {"metadata": {"name": "j"}}
  assert refusals("three_kinds", wrong, before=without_labels) == [SINGLE]


def test_only_the_controller_of_jobsets_may_say_that_a_job_is_part_of_one():
  def owned(**owner):
    return job("normal-single", pods(8), namespace="team", ownerReferences=[owner])
  part = owned(kind="JobSet", apiVersion="jobset.x-k8s.io/v1alpha2", controller=True)
  controller = Authorizer(True)
  assert refusals("three_kinds", part, authorizer=controller) == []
  assert controller.asked == ["jobset.x-k8s.io", "jobsets", "status", "team", "update"]
  assert refusals("three_kinds", part, authorizer=Authorizer(False)) == [SINGLE]
  for other in (owned(kind="JobSet", apiVersion="jobset.x-k8s.io/v1alpha2"),
                owned(kind="JobSet", apiVersion="jobset.x-k8s.io/v1alpha2", controller=False),
                owned(kind="JobSet", apiVersion="evil/v1", controller=True),
                owned(kind="CronJob", apiVersion="batch/v1", controller=True)):
    assert refusals("three_kinds", other, authorizer=Authorizer(True)) == [SINGLE], other
