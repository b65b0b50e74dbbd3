// stretto data show PATH -o page.html, stretto data bench PATH: both belong to the Python package
// (python/stretto/data/__main__.py), which knows the same options.
#include <memory>

#include "data_verbs.h"
#include "launcher.h"

namespace stretto::cli {
namespace {

struct DataFlags {
  std::string source, out, cache = "page", fit = "crop", transforms, peers = "installed";
  int64_t count = 24, epoch = 0, size = 224, seed = 0, batch = 64;
  int threads = 0;
  double seconds = 3, step_ms = 0;
  bool validation = false;
};

void add_common(Command& command, DataFlags& flags) {
  add_option(command, "source", &flags.source, "PATH", "A folder of pictures, or another source",
             {.required = true});
  add_option(command, "--size", &flags.size, "PIXELS", "Height and width of what a model sees",
             {.show_default = true, .range = Range{1, 1 << 14}});
  add_option(command, "--seed", &flags.seed, "N", "Another one gives another order and other crops",
             {.show_default = true, .range = Range{0, 1e15}});
  add_option(command, "--threads", &flags.threads, "N",
             "Threads that decode; 0: one per core, less one", {.range = Range{0, 1024}});
  add_flag(command, "--validation", &flags.validation, "Show the middle, not a random part");
}

std::vector<std::string> common_words(const DataFlags& flags) {
  std::vector<std::string> words{"--size", std::to_string(flags.size), "--seed",
                                 std::to_string(flags.seed)};
  if (flags.threads > 0) words.insert(words.end(), {"--threads", std::to_string(flags.threads)});
  if (flags.validation) words.emplace_back("--validation");
  words.insert(words.end(), {"--", flags.source});
  return words;
}

int start(const Context& context, std::vector<std::string> words, const DataFlags& flags) {
  if (context.talk->json) words.emplace_back("--json");
  const std::vector<std::string> common = common_words(flags);
  words.insert(words.end(), common.begin(), common.end());
  return hand_over(context.python, "stretto.data", words);
}

void add_show(Command& data, const std::shared_ptr<DataFlags>& flags, const Context& context) {
  Command& show =
      add_command(data, {.name = "show",
                         .summary = "Write a page with pictures as a model sees them",
                         .examples = "stretto data show imagenet/train -o page.html\n"
                                     "stretto data show instances_val.json -o page.html "
                                     "--fit letterbox"});
  add_general_options(show, context);
  add_common(show, *flags);
  add_option(show, "-o,--output", &flags->out, "FILE", "The HTML file", {.required = true});
  add_option(show, "--count", &flags->count, "N", "How many pictures",
             {.show_default = true, .range = Range{1, 4096}});
  add_option(show, "--epoch", &flags->epoch, "N", "Whose crops are shown",
             {.show_default = true, .range = Range{0, 1e9}});
  add_option(show, "--fit", &flags->fit, "HOW", "How pictures of other shapes fill the result",
             {.show_default = true, .one_of = {"crop", "letterbox"}});
  add_option(show, "--transforms", &flags->transforms, "LIST",
             "Operators such as \"rand_augment(2, 9), erase(0.25)\"");
  show.run = [flags, context] {
    return start(
        context,
        {"show", "--out", flags->out, "--count", std::to_string(flags->count), "--epoch",
         std::to_string(flags->epoch), "--fit", flags->fit, "--transforms", flags->transforms},
        *flags);
  };
}

void add_bench(Command& data, const std::shared_ptr<DataFlags>& flags, const Context& context) {
  Command& bench =
      add_command(data, {.name = "bench",
                         .summary = "Time loading, and say what a training would wait for",
                         .examples = "stretto data bench imagenet/train --step-ms 150"});
  add_general_options(bench, context);
  add_common(bench, *flags);
  add_option(bench, "--batch", &flags->batch, "N", "Pictures of a batch",
             {.show_default = true, .range = Range{1, 1 << 20}});
  add_option(bench, "--seconds", &flags->seconds, "S", "How long to measure",
             {.show_default = true, .range = Range{0.1, 3600}});
  add_option(bench, "--step-ms", &flags->step_ms, "MS", "The time that a model takes for a batch",
             {.show_default = true, .range = Range{0, 1e6}});
  add_option(bench, "--cache", &flags->cache, "KIND", "What is kept in memory",
             {.show_default = true, .one_of = {"page", "user", "decoded"}});
  add_option(bench, "--peers", &flags->peers, "WHICH",
             "Other loaders that are timed beside it, on one core and the JPEG files of a folder",
             {.show_default = true, .one_of = {"installed", "none"}});
  bench.run = [flags, context] {
    std::vector<std::string> words{"bench",
                                   "--batch",
                                   std::to_string(flags->batch),
                                   "--seconds",
                                   std::to_string(flags->seconds),
                                   "--step-ms",
                                   std::to_string(flags->step_ms),
                                   "--cache",
                                   flags->cache,
                                   "--peers",
                                   flags->peers};
    return start(context, std::move(words), *flags);
  };
}

}  // namespace

std::function<int()> set_up_data(Command& command, const Context& context) {
  auto flags = std::make_shared<DataFlags>();
  add_show(command, flags, context);
  add_bench(command, flags, context);
  return {};
}

}  // namespace stretto::cli
