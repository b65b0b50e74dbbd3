// What an unfinished pack has done so far: a file in its folder, sample by sample, that is gone
// when the pack is finished (docs/formats/pack.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"

namespace stretto::data {

constexpr std::string_view kJournalMagic = "STRPJNL\n";

std::string journal_path(const std::string& folder);

// Whether there is a regular file that begins like this.
bool starts_with_magic(const std::string& path, std::string_view magic);

// What is said behind an error of writing.
constexpr std::string_view kResumeHint =
    "(what is written is kept: run `stretto pack` again to resume)";

// Adds it to what `write` throws of a file.
template <typename F>
void with_resume_hint(const F& write) {
  try {
    write();
  } catch (const FormatError& e) {
    std::string problem(e.what());
    if (problem.starts_with(e.file() + ": ")) problem.erase(0, e.file().size() + 2);
    throw FormatError(e.file(), -1, fmt::format("{} {}", problem, kResumeHint), e.code());
  }
}

// A sample that was written to a shard, or left out.
struct PackEntry {
  uint64_t offset = 0, length = 0;  // as in Record
  uint64_t checksum = 0;            // of the restart table, the picture and its details
  uint64_t source_bytes = 0;
  uint32_t container = 0, restart_bytes = 0, details_bytes = 0;
  int32_t width = 0, height = 0;
  std::string problem;  // why it was left out; empty: it was not

  uint64_t begin() const { return offset - restart_bytes; }
  uint64_t end() const { return offset + length + details_bytes; }
};

// What decides which bytes a pack has.
struct PackPlan {
  uint64_t fingerprint = 0, samples = 0, shard_bytes = 0;
  bool operator==(const PackPlan&) const = default;
};

class PackJournal {
 public:
  // Makes the journal of a new pack in an empty folder, or reads that of an interrupted one up to
  // the last sample whose bytes are all in their shard; what lies behind it is removed from journal
  // and shards. Throws InvalidArgument if the folder holds something else or a pack of another
  // plan, and FormatError if another process is packing to it or a file cannot be read or written.
  PackJournal(const std::string& folder, const PackPlan& plan);
  ~PackJournal();
  PackJournal(const PackJournal&) = delete;
  PackJournal& operator=(const PackJournal&) = delete;

  const std::vector<PackEntry>& entries() const { return entries_; }  // sample by sample
  // Forgets all but the first `count` entries, and what was written for them.
  void keep(size_t count);
  // After its bytes were written.
  void append(PackEntry entry);
  // The pack is finished.
  void remove();

 private:
  void start(const PackPlan& plan, bool others);
  void read(const PackPlan& plan);
  bool drop_lost();
  void cut();

  std::string folder_, path_;
  int fd_ = -1;
  std::vector<PackEntry> entries_;
  std::vector<uint64_t> ends_;  // of each entry in the journal
};

}  // namespace stretto::data
