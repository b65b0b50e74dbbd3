"""./dev test names what failed, and fails when a test that was meant to run was skipped."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "check_results.py"
PYTEST = '<skipped type="pytest.skip" message="{}">file.py:3: {}</skipped>'
GTEST = '<skipped message="src/a_test.cc:12&#x0A;{}"><![CDATA[src/a_test.cc:12 {}]]></skipped>'


def check(folder, *skipped):
  cases = "".join(f'<testcase classname="a" name="t{i}">{s}</testcase>'
                  for i, s in enumerate(["", *skipped]))
  (folder / "r.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
  return subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True)


def test_allowed_reasons_are_counted(tmp_path):
  done = check(tmp_path, PYTEST.format(*["jax is not installed"] * 2),
               GTEST.format(*["no RDMA in this kernel"] * 2))
  assert done.returncode == 0, done.stderr
  assert "1  jax is not installed" in done.stdout and "2 of 3 tests were skipped" in done.stdout


def test_any_other_reason_is_a_failure_that_names_the_test(tmp_path):
  for form in (PYTEST, GTEST):
    done = check(tmp_path, form.format(*["torch is not installed"] * 2))
    assert done.returncode == 1
    assert "a.t1 was meant to run, but was skipped: torch is not installed" in done.stderr


def test_a_run_without_results_is_a_failure(tmp_path):
  done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True)
  assert done.returncode == 1


def test_failures_are_named_again_at_the_end(tmp_path):
  text = "a_test.cc:139\nExpected equality"
  done = check(tmp_path, f'<failure message="m"><![CDATA[{text}]]></failure>')
  assert done.returncode == 0, "their own programs have failed already"
  assert "failed: a.t1\n    a_test.cc:139\n    Expected equality\n" in done.stdout


def test_the_slowest_are_named(tmp_path):
  ran = (("a", "x", 4.2), ("a", "y", 3), ("b", "z", 5), ("c", "u", 0))
  cases = "".join(f'<testcase classname="{file}" name="{name}" time="{time}"/>'
                  for file, name, time in ran)
  (tmp_path / "r.xml").write_text(f"<testsuites>{cases}</testsuites>")
  out = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True,
                       text=True).stdout.splitlines()
  assert out[:7] == ["    7 s  a", "    5 s  b", "", "    5 s  b.z", "    4 s  a.x", "    3 s  a.y",
                     ""]
  assert out[7] == "12 s in 4 tests, of which several ran at a time"
