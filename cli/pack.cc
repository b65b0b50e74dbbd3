// stretto pack SRC OUT
#include "stretto/data/pack.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "data_verbs.h"
#include "progress.h"
#include "stretto/base/error.h"
#include "table.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

struct PackFlags {
  std::string source, output, kind;
  std::string errors = "raise";
  int threads = 0;
  bool verify = false;
};

std::function<void(int64_t, int64_t)> progress_of(std::string stage, const Talk& talk) {
  const auto bar = progress_bar(talk);
  if (!bar) return {};
  return [bar, stage = std::move(stage)](int64_t done, int64_t count) {
    bar(stage, static_cast<double>(done) / static_cast<double>(count));
  };
}

json as_json(const std::vector<data::LeftOut>& samples) {
  json list = json::array();
  for (const data::LeftOut& sample : samples) {
    list.push_back({{"name", sample.name}, {"reason", sample.reason}});
  }
  return list;
}

json as_json(const data::PackResult& result) {
  return {{"samples", result.samples},
          {"resumed_at", result.resumed_at},
          {"shards", result.shards},
          {"bytes", result.bytes},
          {"source_bytes", result.source_bytes},
          {"left_out", as_json(result.left_out)}};
}

json as_json(const data::VerifyResult& result) {
  return {{"samples", result.samples},
          {"compared", result.compared},
          {"bytes", result.bytes},
          {"damaged", as_json(result.damaged)}};
}

data::PackResult pack(const PackFlags& flags, const Talk& talk) {
  const data::Dataset source = data::open_dataset(flags.source, flags.kind);
  talk.detail(
      fmt::format("{}: {} pictures, read as \"{}\"", flags.source, source.size(), source.kind()));
  data::PackResult result = data::pack(source, flags.output,
                                       {.threads = flags.threads,
                                        .skip_bad = flags.errors == "skip",
                                        .progress = progress_of("pack", talk)});
  end_progress();
  for (const data::LeftOut& sample : result.left_out) {
    talk.warn(fmt::format("left out {}: {}", sample.name, sample.reason));
  }
  if (!talk.json) {
    fmt::print("packed {} pictures into {}: {} {}, {} (before: {})\n", result.samples, flags.output,
               result.shards, result.shards == 1 ? "shard" : "shards",
               mebibytes(static_cast<double>(result.bytes)),
               mebibytes(static_cast<double>(result.source_bytes)));
  }
  return result;
}

data::VerifyResult verify(const PackFlags& flags, const std::string& path, const Talk& talk) {
  data::VerifyResult result =
      data::verify_pack(path, {.threads = flags.threads, .progress = progress_of("verify", talk)});
  end_progress();
  for (const data::LeftOut& sample : result.damaged) {
    talk.warn(fmt::format("{}: {}: {}", path, sample.name, sample.reason));
  }
  if (!talk.json) {
    fmt::print("verified {} pictures of {}, the pixels of {}: {} damaged\n", result.samples, path,
               result.compared, result.damaged.size());
  }
  return result;
}

int run_pack(const PackFlags& flags, const Talk& talk) {
  const bool packs = !flags.output.empty();
  if (!packs && !flags.verify) {
    throw_invalid("pack: expected SRC and OUT, or --verify and a pack; got {} alone", flags.source);
  }
  json result;
  if (packs) result = as_json(pack(flags, talk));
  result["source"] = packs ? json(flags.source) : json();
  result["pack"] = packs ? flags.output : flags.source;
  result["verified"] = json();
  bool damaged = false;
  if (flags.verify) {
    const data::VerifyResult verified = verify(flags, packs ? flags.output : flags.source, talk);
    damaged = !verified.damaged.empty();
    result["verified"] = as_json(verified);
  }
  if (talk.json) print_json(result);
  return damaged ? kFailed : kOk;
}

}  // namespace

std::function<int()> set_up_pack(Command& command, const Context& context) {
  auto flags = std::make_shared<PackFlags>();
  std::vector<std::string> kinds;
  for (const data::SourceRow& row : data::sources()) kinds.emplace_back(row.kind);
  add_option(command, "source", &flags->source, "SRC",
             "Pictures: a folder with a folder per class, a list, archives, or a pack to verify",
             {.required = true});
  add_option(command, "output", &flags->output, "OUT",
             "Folder to write; one that an interrupted run left is resumed");
  add_option(command, "--kind", &flags->kind, "KIND", "What SRC is; without it, this is found out",
             {.group = "Input", .one_of = std::move(kinds)});
  add_option(command, "--errors", &flags->errors, "WHAT",
             "A picture that cannot be decoded ends the run, or is left out and named",
             {.group = "Input", .show_default = true, .one_of = {"raise", "skip"}});
  add_option(command, "--threads", &flags->threads, "N", "Threads; 0: one per core",
             {.group = "Work", .show_default = true, .range = Range{0, 1024}});
  add_flag(command, "--verify", &flags->verify,
           "Read the pack and check every picture; without SRC, do only this", {.group = "Work"});
  return [flags, talk = context.talk] { return run_pack(*flags, *talk); };
}

}  // namespace stretto::cli
