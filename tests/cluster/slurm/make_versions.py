"""Writes what versions of Slurm after 22.05 print, from the captured texts of 22.05 and what the
sources of Slurm (src/api/*_info.c and src/common of the tags named) print otherwise.

  python tests/cluster/slurm/make_versions.py
"""

import re
from pathlib import Path

HERE = Path(__file__).parent
FIRST = "22.05"


def without(*keys):
  """Of `scontrol show config`."""
  return lambda text: re.sub(rf"^({'|'.join(map(re.escape, keys))}) *=.*\n", "", text, flags=re.M)


def added(**values):
  def change(text):
    head, *lines = text.split("\n")
    end = lines.index("")
    return "\n".join([head, *lines[:end], *(f"{key:23} = {value}" for key, value in values.items()),
                      *lines[end:]])
  return change


def changed(pattern, to):
  return lambda text: re.sub(pattern, to, text, flags=re.M)


NO_PREEMPTION = changed(r"= preempt/none$", "= (null)")

# Each version over the one before it: by file, what changes.
VERSIONS = {
  "23.02": {  # slurm-23-02-7-1
    "config": [without("LaunchType", "SlurmctldPlugstack"),
               added(JobCompParams="(null)", MaxBatchRequeue="5", PreemptParameters="(null)",
                     SuspendExcStates="(null)")],
    "partition": [changed(r"(MaxCPUsPerNode=\S+)", r"\1 MaxCPUsPerSocket=UNLIMITED")],
    "node": [changed(r"(LastBusyTime=\S+)", r"\1 ResumeAfterTime=None"),
             changed(r"Version=\S+", "Version=23.02.7")],
    "reservation": [changed(r"(MaxStartDelay=\S+)", r"\1 Comment=disks")],
  },
  "23.11": {  # slurm-23-11-10-1
    "config": [without("JobCredentialPrivateKey", "JobCredentialPublicCertificate", "RoutePlugin"),
               NO_PREEMPTION, changed(r"= topology/none$", "= topology/default")],
    "node": [changed(r"n/s", "n/a"), changed(r"CurrentWatts=0 AveWatts=0",
                                             "CurrentWatts=n/a AveWatts=n/a"),
             changed(r"Version=\S+", "Version=23.11.10")],
    "squeue": [changed(r"gres:gpu", "gres/gpu")],
  },
  "24.05": {  # slurm-24-05-4-1
    "config": [without("CoreSpecPlugin", "Epilog", "EpilogSlurmctld", "ExtSensorsType",
                       "ExtSensorsFreq", "PowerParameters", "PowerPlugin", "Prolog",
                       "PrologSlurmctld"),
               added(HashPlugin="hash/k12", TLSParameters="(null)", TLSType="tls/none")],
    "partition": [changed(r"(ExclusiveUser=\S+)", r"\1 ExclusiveTopo=NO")],
    "node": [changed(r" CapWatts=\S+", ""), changed(r" ExtSensors\w+=\S+", ""),
             changed(r"Version=\S+", "Version=24.05.4")],
    "reservation": [changed(r" Watts=\S+", "")],
  },
  "24.11": {  # slurm-24-11-1-1
    "node": [changed(r"Version=\S+", "Version=24.11.1")],
  },
  "25.05": {  # slurm-25-05-3-1
    "config": [changed(r"= topology/default$", "= topology/flat")],
    "node": [changed(r"Version=\S+", "Version=25.05.3")],
  },
  "25.11": {  # slurm-25-11-1-1
    "config": [without("AccountingStorageUser", "JobContainerType"),
               added(CliFilterParameters="(null)", HttpParserType="(null)", JobCompPass="(null)",
                     MetricsType="(null)", NamespaceType="(null)", UrlParserType="(null)")],
    "node": [changed(r"(CfgTRES=\S+ AllocTRES=.*)", r"\1 Parameters=keep=1"),
             changed(r"Version=\S+", "Version=25.11.1")],
    "reservation": [changed(r" Users=", " AllowedPartitions=(null) QOS=(null) Users=")],
  },
}


def main():
  texts = {path.stem: path.read_text() for path in (HERE / FIRST).glob("*.txt")}
  for version, changes in VERSIONS.items():
    (HERE / version).mkdir(exist_ok=True)
    for name, text in texts.items():
      for change in changes.get(name, ()):
        after = change(text)
        assert after != text or change is NO_PREEMPTION, f"{version}: {name} has no such text"
        text = after
      texts[name] = text
      (HERE / version / f"{name}.txt").write_text(text)


if __name__ == "__main__":
  main()
