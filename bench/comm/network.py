"""Hosts made of network namespaces: every host has a card per rail, shaped in both directions, and
all cards of a rail meet in one bridge.

Needs root and iproute2; per-flow caps need nft as well. Everything is named after this process and
goes away with the context manager.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass

# Token buckets small enough that a burst is short beside an operation, large enough for 1 Gbit/s at
# the kernel's tick.
BURST = "256kb"
QUEUE = "20ms"
FLOW_CLASSES = 32


@dataclass(frozen=True)
class Network:
  hosts: int
  rails_mbit: tuple[int, ...] = (1000,)  # speed of each card of a host; 0: unshaped
  flow_mbit: int = 0  # no connection is faster than this; 0: no such cap
  congestion_control: str = "reno"

  @property
  def total_mbit(self) -> int:
    return sum(self.rails_mbit)


def unavailable(network: Network | None = None) -> str:
  """Why hosts cannot be made here; empty when they can."""
  if os.geteuid() != 0:
    return "namespaces need root"
  for tool in ("ip", "tc"):
    if not shutil.which(tool):
      return f"no `{tool}` (package iproute2)"
  if network and network.flow_mbit and not shutil.which("nft"):
    return "per-flow caps need `nft` (package nftables)"
  probe = f"stretto-probe-{os.getpid()}"
  done = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
  if done.returncode:
    return f"no network namespaces here: {done.stderr.strip()}"
  subprocess.run(["ip", "netns", "del", probe], check=False)
  return ""


class Hosts:
  """Context manager over the hosts of a Network, or over the loopback device when `network` is
  None."""

  def __init__(self, network: Network | None, tag: str):
    self.network = network
    self._tag = f"st{os.getpid()}{tag}"
    self._stack = contextlib.ExitStack()

  def __enter__(self) -> Hosts:
    if self.network:
      with contextlib.ExitStack() as stack:
        self.build(stack)
        self._stack = stack.pop_all()
    return self

  def __exit__(self, *_) -> None:
    self._stack.close()

  def name(self, host: int) -> str:
    return f"{self._tag}h{host}"

  def address(self, host: int, rail: int = 0) -> str:
    return f"10.{70 + rail}.0.{host + 1}" if self.network else "127.0.0.1"

  def interfaces(self) -> list[str]:
    return [f"eth{r}" for r in range(len(self.network.rails_mbit))] if self.network else ["lo"]

  def command(self, host: int, *words: str) -> list[str]:
    """`words`, run on a host, which has a name and cores of its own as well. Without them Linux
    often moves a rank that a packet wakes to its sender's core, which no real host does."""
    if not self.network:
      return list(words)
    cores = ",".join(map(str, self.cores(host)))
    return ["ip", "netns", "exec", self.name(host), "unshare", "--uts", "taskset", "-c", cores,
            "sh", "-c", f'hostname host{host}; exec "$@"', "sh", *words]

  def cores(self, host: int) -> list[int]:
    """This machine's, dealt evenly to the hosts; more hosts than cores share them."""
    cores, hosts = sorted(os.sched_getaffinity(0)), self.network.hosts
    if hosts >= len(cores):
      return [cores[host % len(cores)]]
    return cores[host * len(cores) // hosts:(host + 1) * len(cores) // hosts]

  def cut(self, rail: int) -> None:
    """Every cable of a rail is pulled at the bridge's end: the hosts' own cards stay up."""
    for host in range(self.network.hosts):
      run("ip", "-n", self._switch(), "link", "set", f"p{host}r{rail}", "down")

  def mend(self, rail: int) -> None:
    for host in range(self.network.hosts):
      run("ip", "-n", self._switch(), "link", "set", f"p{host}r{rail}", "up")

  def unplug(self, host: int, rail: int = 0) -> None:
    """The bridge drops what comes from one host and what should go there; its card stays up."""
    run("ip", "-n", self._switch(), "link", "set", f"p{host}r{rail}", "nomaster")

  def _switch(self) -> str:
    return f"{self._tag}sw"

  def _namespace(self, stack: contextlib.ExitStack, name: str) -> None:
    run("ip", "netns", "add", name)
    stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
    run("ip", "-n", name, "link", "set", "lo", "up")
    run("ip", "netns", "exec", name, "sysctl", "-qw",
        f"net.ipv4.tcp_congestion_control={self.network.congestion_control}")

  def build(self, stack: contextlib.ExitStack) -> None:
    switch = self._switch()
    self._namespace(stack, switch)
    for rail in range(len(self.network.rails_mbit)):
      run("ip", "-n", switch, "link", "add", f"br{rail}", "type", "bridge")
      run("ip", "-n", switch, "link", "set", f"br{rail}", "up")
    for host in range(self.network.hosts):
      self._namespace(stack, self.name(host))
      for rail, mbit in enumerate(self.network.rails_mbit):
        self.connect(host, rail, mbit)
      if self.network.flow_mbit:
        cap_flows(self.name(host), self.network.flow_mbit, self.network.rails_mbit[0])

  def connect(self, host: int, rail: int, mbit: int) -> None:
    switch, name = self._switch(), self.name(host)
    card, port = f"eth{rail}", f"p{host}r{rail}"
    run("ip", "link", "add", card, "netns", name, "type", "veth", "peer", "name", port, "netns",
        switch)
    run("ip", "-n", name, "addr", "add", f"{self.address(host, rail)}/24", "dev", card)
    run("ip", "-n", name, "link", "set", card, "up")
    run("ip", "-n", switch, "link", "set", port, "master", f"br{rail}", "up")
    if mbit:
      if not self.network.flow_mbit:
        shape(name, card, mbit)
      shape(switch, port, mbit)


def shape(namespace: str, card: str, mbit: int) -> None:
  run("tc", "-n", namespace, "qdisc", "add", "dev", card, "root", "tbf", "rate", f"{mbit}mbit",
      "burst", BURST, "latency", QUEUE)


def cap_flows(namespace: str, flow_mbit: int, mbit: int) -> None:
  """Every new connection gets the next of 32 classes, and each class a ceiling."""
  tc = ["tc", "-n", namespace]
  run(*tc, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "99")
  run(*tc, "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb", "rate",
      f"{mbit}mbit", "burst", BURST)
  for index in [*range(1, FLOW_CLASSES + 1), 99]:
    run(*tc, "class", "add", "dev", "eth0", "parent", "1:1", "classid", f"1:{10 + index:x}", "htb",
        "rate", "1mbit", "ceil", f"{flow_mbit}mbit")
  marks = ", ".join(f"{i} : 1:{10 + i:x}" for i in range(1, FLOW_CLASSES + 1))
  number = f"ct mark 0 ct mark set numgen inc mod {FLOW_CLASSES} offset 1"
  rules = f"""table inet caps {{
  chain outgoing {{
    type filter hook output priority 0;
    meta l4proto tcp {number}
    meta l4proto tcp meta priority set ct mark map {{ {marks} }}
  }}
  chain incoming {{
    type filter hook input priority 0;
    meta l4proto tcp {number}
  }}
}}
"""
  run("ip", "netns", "exec", namespace, "nft", "-f", "-", text=rules)


def run(*words: str, text: str | None = None) -> None:
  done = subprocess.run(words, input=text, capture_output=True, text=True)
  if done.returncode:
    raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
