// stretto unpack PACK DIR
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "data_verbs.h"
#include "progress.h"
#include "stretto/data/pack.h"
#include "table.h"

namespace stretto::cli {
namespace {

struct UnpackFlags {
  std::string source, output;
};

int run_unpack(const UnpackFlags& flags, const Talk& talk) {
  std::function<void(int64_t, int64_t)> progress;
  if (const auto bar = progress_bar(talk)) {
    progress = [bar](int64_t done, int64_t count) {
      bar("unpack", static_cast<double>(done) / static_cast<double>(count));
    };
  }
  const data::UnpackResult result = data::unpack(flags.source, flags.output, progress);
  end_progress();
  if (talk.json) {
    print_json({{"pack", flags.source},
                {"folder", flags.output},
                {"files", result.files},
                {"bytes", result.bytes}});
  } else {
    fmt::print("wrote {} files to {}: {}\n", result.files, flags.output,
               mebibytes(static_cast<double>(result.bytes)));
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_unpack(Command& command, const Context& context) {
  auto flags = std::make_shared<UnpackFlags>();
  add_option(command, "source", &flags->source, "PACK", "A folder that `stretto pack` wrote",
             {.required = true});
  add_option(command, "output", &flags->output, "DIR", "Folder to write: empty, or made",
             {.required = true});
  return [flags, talk = context.talk] { return run_unpack(*flags, *talk); };
}

}  // namespace stretto::cli
