"""The comparison as text."""

from __future__ import annotations

from bench import summary

# Times per run that another process took the core; a timer tick now and then is normal.
QUIET = 0.3


def comparison(results: list[dict]) -> str:
  first = results[0]
  has_truth = any("error_vs_float64" in r for r in results)
  key = "error_vs_float64" if has_truth else "error_vs_onnxruntime"
  against = "float64" if has_truth else "ORT"
  plural = "s" if first["threads"] > 1 else ""
  lines = [f"{first['model']}, {first['threads']} thread{plural}",
           f"  {'engine':<18}{'version':<16}{'median ms':>10}{'p95':>9}{'fifth':>9}{'min':>9}"
           f"{'cpu':>9}"
           f"{'err/' + against:>13}{'load s':>8}{'peak MiB':>10}"]
  for r in results:
    head = f"  {r['engine'] + '*' * summary.is_uncapped(r):<18}{r.get('version') or '-':<16}"
    if r["status"] in ("skipped", "failed"):
      lines.append(f"{head}{r['status']}: {r['reason']}")
      continue
    if r["status"] == "ok":
      numbers = f"{r['median_ms']:>10.2f}{r['p95_ms']:>9.2f}{r['fifth_ms']:>9.2f}" \
                f"{r['min_ms']:>9.2f}{r['cpu_ms']:>9.2f}"
    else:
      numbers = f"{'wrong':>10}{'-':>9}{'-':>9}{'-':>9}{'-':>9}"
    lines.append(f"{head}{numbers}{r.get(key, float('nan')):>13.1e}{r['load_s']:>8.1f}"
                 f"{r['serving_mib']:>10.0f}")
  return "\n".join(lines + verdict(results) + disturbance(results)) + "\n"


def disturbance(results: list[dict]) -> list[str]:
  # The median over engines: some yield their core thousands of times by themselves.
  rates = sorted(r["preempted"] / r["runs"] for r in results if r["status"] == "ok")
  per_run = rates[len(rates) // 2] if rates else 0.0
  if per_run < QUIET:
    return []
  return [f"  the machine was not quiet: the main thread lost its core {per_run:.1f} times per run"]


def verdict(results: list[dict]) -> list[str]:
  lines = []
  for ours in summary.ratios(results):
    lines.append(f"  best peer {ours['peer']} {ours['peer_ms']:.2f} ms, {ours['ours']} "
                 f"{ours['stretto_ms']:.2f} ms: {ours['ratio']:.2f}x "
                 f"({ours['ratio_of_fifths']:.2f}x between the lower fifths, "
                 f"{ours['ratio_of_minima']:.2f}x between the fastest runs, "
                 f"{ours['ratio_of_cpu']:.2f}x in processor time)")
    capped = summary.ratio(results, ours["ours"], capped_only=True)
    if capped and capped["peer"] != ours["peer"]:
      lines.append(f"  best fully capped peer {capped['peer']} {capped['peer_ms']:.2f} ms: "
                   f"{capped['ratio']:.2f}x")
  if gain := summary.gain(results):
    lines.append(f"  stretto-before / stretto: {gain['median_ms']:.3f}x "
                 f"({gain['fifth_ms']:.3f}x between the lower fifths, {gain['min_ms']:.3f}x "
                 f"between the fastest runs, {gain['cpu_ms']:.3f}x in processor time)")
  if lines:
    return lines
  best = summary.best_peer(results)
  if best is None:
    return ["  no peer computed this model"]
  return [f"  best peer: {best['engine']} {best['median_ms']:.2f} ms (Stretto was not timed)"]


def caveats(results: list[dict]) -> list[str]:
  seen = {r["engine"]: r["cap"]["why"] for r in results if summary.is_uncapped(r)}
  return [f"* {name} is not capped: {why}" for name, why in seen.items()]


def overview(groups: list[list[dict]]) -> str:
  """One line per model, thread count and row of Stretto's, and the geometric means."""
  lines = [f"{'model':<22}{'threads':>8}{'row':>16}{'ms':>10}{'best peer':>18}{'ms':>10}"
           f"{'ratio':>8}"]
  ratios: dict[tuple[str, int], list[float]] = {}
  for results in groups:
    head = f"{results[0]['model']:<22}{results[0]['threads']:>8}"
    for line in summary.ratios(results):
      ratios.setdefault((line["ours"], line["threads"]), []).append(line["ratio"])
      lines.append(f"{head}{line['ours']:>16}{line['stretto_ms']:>10.2f}{line['peer']:>18}"
                   f"{line['peer_ms']:>10.2f}{line['ratio']:>8.2f}")
    if not summary.ratios(results):
      best = summary.best_peer(results)
      peer, ms = (best["engine"], f"{best['median_ms']:.2f}") if best else ("-", "-")
      lines.append(f"{head}{'-':>16}{'-':>10}{peer:>18}{ms:>10}{'-':>8}")
  for (ours, threads), values in ratios.items():
    mean = summary.geometric_mean(values)
    lines.append(f"geometric mean over {len(values)} model(s), {ours}, {threads} thread(s): "
                 f"{mean:.2f}")
  return "\n".join(lines)
