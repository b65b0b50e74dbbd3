// stretto check: whether a model would run, and how fast its parts.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model_options.h"
#include "stretto/stretto.h"
#include "table.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

struct CheckFlags {
  std::string source;
  ModelFlags model;
};

void print_steps(const std::string& source, const Coverage& coverage) {
  int all = 0, interpreted = 0;
  for (const Coverage::Step& step : coverage.steps) {
    all += step.count;
    if (step.kernel.empty()) interpreted += step.count;
  }
  fmt::print("{} runs: {} of {} steps have kernels{}\n\n", source, all - interpreted, all,
             interpreted == 0 ? "" : ", the others are interpreted, which is slow");
  Table table({"operator", ">steps", "kernel", ">Gflop", "first"});
  for (const Coverage::Step& step : coverage.steps) {
    table.row({step.op, fmt::format("{}", step.count),
               step.kernel.empty() ? "none: interpreted" : step.kernel,
               step.flops == 0 ? "" : fmt::format("{:.3g}", step.flops * 1e-9), step.first});
  }
  fmt::print("{}", table.text());
}

int run_check(const CheckFlags& flags, const Talk& talk) {
  if (!flags.source.ends_with(".onnx")) {
    throw_invalid("check: expected a file called *.onnx, got {}", flags.source);
  }
  const Coverage coverage = check(flags.source, options(flags.model));
  for (const std::string& note : coverage.notes) talk.note(flags.source + ": " + note);
  if (!talk.json) {
    print_steps(flags.source, coverage);
    return kOk;
  }
  json steps = json::array();
  for (const Coverage::Step& step : coverage.steps) {
    steps.push_back({{"operator", step.op},
                     {"kernel", step.kernel.empty() ? json(nullptr) : json(step.kernel)},
                     {"count", step.count},
                     {"flops", step.flops},
                     {"first", step.first}});
  }
  print_json({{"model", flags.source}, {"steps", std::move(steps)}});
  return kOk;
}

}  // namespace

std::function<int()> set_up_check(Command& command, const Context& context) {
  auto flags = std::make_shared<CheckFlags>();
  add_option(command, "source", &flags->source, "FILE", "An ONNX file", {.required = true});
  add_input_flags(command, flags->model);
  add_threads_flag(command, flags->model);
  add_disable_flag(command, flags->model);
  return [flags, talk = context.talk] { return run_check(*flags, *talk); };
}

}  // namespace stretto::cli
