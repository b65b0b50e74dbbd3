// Which kernel wins depends on the processor: how wide its units really are, how far its memory is.
// So a record ships per core that was measured, and any other core goes by the built-in order: a
// Zen 5 record costs ResNet-50 and U-Net 4 to 5 % on Zen 4.
#include "stretto/base/cpu.h"
#include "stretto/tune/embedded.h"
#include "stretto/tune/record.h"

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

Record Record::shipped(std::string_view core) {
  Record record;
  for (const Row& row : kRows) {
    if (row.core == core) {
      record.merge(parse(row.text(), "shipped record of " + std::string(row.core)));
    }
  }
  return record;
}

const Record& Record::shipped() {
  static const Record record = shipped(cpu_info().core);
  return record;
}

}  // namespace stretto::tune
