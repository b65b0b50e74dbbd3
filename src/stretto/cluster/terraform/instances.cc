// The types of machines that nodes may become. To add one: a row, before larger ones of its chip.
// Types come and go: `instance` in [[nodes]] takes any other.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/cluster/terraform/terraform.h"

namespace stretto::cluster {
namespace {

using enum CloudProvider;

constexpr Instance kInstances[] = {
    {kAws, "m6i.large", "", 0, 2, 8, ""},
    {kAws, "m6i.xlarge", "", 0, 4, 16, ""},
    {kAws, "m6i.2xlarge", "", 0, 8, 32, ""},
    {kAws, "m6i.4xlarge", "", 0, 16, 64, ""},
    {kAws, "m6i.8xlarge", "", 0, 32, 128, ""},
    {kAws, "m6i.16xlarge", "", 0, 64, 256, ""},
    {kAws, "m6i.32xlarge", "", 0, 128, 512, ""},
    {kAws, "g4dn.xlarge", "t4", 1, 4, 16, ""},
    {kAws, "g4dn.2xlarge", "t4", 1, 8, 32, ""},
    {kAws, "g4dn.4xlarge", "t4", 1, 16, 64, ""},
    {kAws, "g4dn.8xlarge", "t4", 1, 32, 128, ""},
    {kAws, "g4dn.12xlarge", "t4", 4, 48, 192, ""},
    {kAws, "g4dn.metal", "t4", 8, 96, 384, ""},
    {kAws, "p3.2xlarge", "v100", 1, 8, 61, ""},
    {kAws, "p3.8xlarge", "v100", 4, 32, 244, ""},
    {kAws, "p3.16xlarge", "v100", 8, 64, 488, ""},
    {kAws, "g5.xlarge", "a10g", 1, 4, 16, ""},
    {kAws, "g5.2xlarge", "a10g", 1, 8, 32, ""},
    {kAws, "g5.4xlarge", "a10g", 1, 16, 64, ""},
    {kAws, "g5.8xlarge", "a10g", 1, 32, 128, ""},
    {kAws, "g5.12xlarge", "a10g", 4, 48, 192, ""},
    {kAws, "g5.24xlarge", "a10g", 4, 96, 384, ""},
    {kAws, "g5.48xlarge", "a10g", 8, 192, 768, ""},
    {kAws, "g6.xlarge", "l4", 1, 4, 16, ""},
    {kAws, "g6.2xlarge", "l4", 1, 8, 32, ""},
    {kAws, "g6.4xlarge", "l4", 1, 16, 64, ""},
    {kAws, "g6.12xlarge", "l4", 4, 48, 192, ""},
    {kAws, "g6.48xlarge", "l4", 8, 192, 768, ""},
    {kAws, "p4d.24xlarge", "a100", 8, 96, 1152, ""},
    {kAws, "p4de.24xlarge", "a100-80gb", 8, 96, 1152, ""},
    {kAws, "p5.48xlarge", "h100", 8, 192, 2048, ""},
    {kGoogle, "n2-standard-2", "", 0, 2, 8, ""},
    {kGoogle, "n2-standard-4", "", 0, 4, 16, ""},
    {kGoogle, "n2-standard-8", "", 0, 8, 32, ""},
    {kGoogle, "n2-standard-16", "", 0, 16, 64, ""},
    {kGoogle, "n2-standard-32", "", 0, 32, 128, ""},
    {kGoogle, "n2-standard-64", "", 0, 64, 256, ""},
    {kGoogle, "n2-standard-128", "", 0, 128, 512, ""},
    {kGoogle, "n1-standard-8", "t4", 1, 8, 30, "nvidia-tesla-t4"},
    {kGoogle, "n1-standard-16", "t4", 2, 16, 60, "nvidia-tesla-t4"},
    {kGoogle, "n1-standard-32", "t4", 4, 32, 120, "nvidia-tesla-t4"},
    {kGoogle, "n1-standard-8", "p100", 1, 8, 30, "nvidia-tesla-p100"},
    {kGoogle, "n1-standard-16", "p100", 2, 16, 60, "nvidia-tesla-p100"},
    {kGoogle, "n1-standard-32", "p100", 4, 32, 120, "nvidia-tesla-p100"},
    {kGoogle, "n1-standard-8", "v100", 1, 8, 30, "nvidia-tesla-v100"},
    {kGoogle, "n1-standard-16", "v100", 2, 16, 60, "nvidia-tesla-v100"},
    {kGoogle, "n1-standard-32", "v100", 4, 32, 120, "nvidia-tesla-v100"},
    {kGoogle, "n1-standard-64", "v100", 8, 64, 240, "nvidia-tesla-v100"},
    {kGoogle, "g2-standard-8", "l4", 1, 8, 32, ""},
    {kGoogle, "g2-standard-24", "l4", 2, 24, 96, ""},
    {kGoogle, "g2-standard-48", "l4", 4, 48, 192, ""},
    {kGoogle, "g2-standard-96", "l4", 8, 96, 384, ""},
    {kGoogle, "a2-highgpu-1g", "a100", 1, 12, 85, ""},
    {kGoogle, "a2-highgpu-2g", "a100", 2, 24, 170, ""},
    {kGoogle, "a2-highgpu-4g", "a100", 4, 48, 340, ""},
    {kGoogle, "a2-highgpu-8g", "a100", 8, 96, 680, ""},
    {kGoogle, "a3-highgpu-8g", "h100", 8, 208, 1872, ""},
};

// The system itself takes some of the memory that a type is sold with, and Slurm sets nodes aside
// that have less than they should.
constexpr double kUsable = 0.94;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return tolower(c); });
  return out;
}

bool has_chips(const Instance& row, CloudProvider provider, const NodeSet& set) {
  return row.provider == provider && row.chips == set.chips &&
         (set.chips == 0 || row.chip == lower(set.chip));
}

bool is_large_enough(const Instance& row, const NodeSet& set) {
  return row.cores >= set.cores &&
         static_cast<double>(row.memory_gb) * 1024 * kUsable >= static_cast<double>(set.memory_mb);
}

std::string known_chips(CloudProvider provider) {
  std::vector<std::string> all;
  for (const Instance& row : kInstances) {
    std::string text = fmt::format("{} {}", row.chips, row.chip);
    if (row.provider == provider && row.chips > 0 && !std::count(all.begin(), all.end(), text)) {
      all.push_back(std::move(text));
    }
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

CloudProvider cloud_provider(std::string_view name) {
  if (name == "aws") return kAws;
  if (name == "google") return kGoogle;
  throw_invalid("--terraform: expected aws or google, got '{}'", name);
}

InstanceChoice instance_of(const Site& site, const NodeSet& set, CloudProvider provider) {
  if (!set.instance.empty()) {
    for (const Instance& row : kInstances) {
      if (has_chips(row, provider, set) && row.type == set.instance) {
        return {set.instance, std::string(row.accelerator)};
      }
    }
    return {set.instance, ""};  // one that the table does not know: who names it knows what it has
  }
  bool any = false;
  for (const Instance& row : kInstances) {
    if (!has_chips(row, provider, set)) continue;
    any = true;
    if (is_large_enough(row, set)) {
      return {std::string(row.type), std::string(row.accelerator)};
    }
  }
  const std::string_view whose = provider == kAws ? "AWS" : "Google";
  if (any) {
    throw_unsupported(
        "{}:{}: no type of {} has {} {} with {} cores and {} MiB of memory beside the system's: "
        "lower cores or memory_gb, or name a type with instance = \"...\"",
        site.file, set.line, whose, set.chips, set.chips > 0 ? set.chip : "chips", set.cores,
        set.memory_mb);
  }
  throw_unsupported(
      "{}:{}: no type of {} that Stretto knows has {} {} (it knows {}): name one with "
      "instance = \"...\"",
      site.file, set.line, whose, set.chips, set.chip, known_chips(provider));
}

}  // namespace stretto::cluster
