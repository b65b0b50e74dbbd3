#include "stretto/data/index.h"

#include <cstdint>
#include <limits>

// The library's functions are inlined from the header, so that no library has to be linked.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "stretto/base/error.h"

namespace stretto::data {

uint64_t fingerprint_of(std::span<const Record> records, std::string_view names) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const Record& record : records) {
    const uint64_t numbers[2] = {record.name_end, static_cast<uint64_t>(record.label)};
    XXH3_64bits_update(&state, numbers, sizeof numbers);
  }
  XXH3_64bits_update(&state, names.data(), names.size());
  return XXH3_64bits_digest(&state);
}

void TableBuilder::add(std::string_view name, Record record,
                       std::span<const Annotation> annotations,
                       std::span<const std::byte> details) {
  Memory& memory = *memory_;
  if (annotations.size() > std::numeric_limits<uint32_t>::max() - memory.annotations.size()) {
    throw_unsupported("{}: more than {} annotations", table_.source,
                      std::numeric_limits<uint32_t>::max());
  }
  memory.names += name;
  memory.annotations.insert(memory.annotations.end(), annotations.begin(), annotations.end());
  record.name_end = memory.names.size();
  record.annotation_end = static_cast<uint32_t>(memory.annotations.size());
  memory.details.insert(memory.details.end(), details.begin(), details.end());
  memory.detail_ends.push_back(memory.details.size());
  memory.records.push_back(record);
}

void TableBuilder::relabel(std::span<const int64_t> labels) {
  const auto change = [&](int64_t& label) {
    if (label >= 0) label = labels[static_cast<size_t>(label)];
  };
  for (Record& record : memory_->records) change(record.label);
  for (Annotation& annotation : memory_->annotations) change(annotation.label);
}

std::shared_ptr<const Dataset::Table> TableBuilder::take() && {
  memory_->records.shrink_to_fit();
  memory_->names.shrink_to_fit();
  memory_->annotations.shrink_to_fit();
  table_.records = memory_->records;
  table_.names = memory_->names;
  table_.annotations = memory_->annotations;
  if (memory_->details.empty()) {
    memory_->detail_ends = {};
  } else {
    memory_->details.shrink_to_fit();
    memory_->detail_ends.shrink_to_fit();
  }
  table_.details = memory_->details;
  table_.detail_ends = memory_->detail_ends;
  table_.fingerprint = fingerprint_of(table_.records, table_.names);
  table_.keep = std::move(memory_);
  return std::make_shared<const Dataset::Table>(std::move(table_));
}

}  // namespace stretto::data
