// Which kernel wins depends on the processor: how wide its units really are, how far its memory is.
// So one tuning cache ships per measured core, and any other core uses the built-in order: with the
// cache of Zen 5, ResNet-50 and U-Net are 4 to 5 % slower on Zen 4.
#include "stretto/base/cpu.h"
#include "stretto/tune/embedded.h"
#include "stretto/tune/tuning_cache.h"

namespace stretto::tune {
namespace {

struct Row {
  std::string_view core;  // CpuInfo::core
  std::string_view (*text)();
};

constexpr Row kRows[] = {
    {"zen5", shipped_zen5_text},
};

}  // namespace

TuningCache TuningCache::shipped(std::string_view core) {
  TuningCache cache;
  for (const Row& row : kRows) {
    if (row.core == core) {
      cache.merge(parse(row.text(), "shipped tuning cache of " + std::string(row.core)));
    }
  }
  return cache;
}

const TuningCache& TuningCache::shipped() {
  static const TuningCache cache = shipped(cpu_info().core);
  return cache;
}

}  // namespace stretto::tune
