#include "stretto/tune/cache_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <system_error>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/file_lock.h"
#include "stretto/base/log.h"

namespace stretto::tune {
namespace {

namespace fs = std::filesystem;

// How long to wait for the lock. Saving takes milliseconds; a holder that was stopped (SIGSTOP)
// must not stop this process too.
constexpr double kPatience_s = 10;
// A thousand times what the models of bench/ fill. Anything larger is no tuning cache.
constexpr uintmax_t kMaxBytes = 256 << 20;

enum class State { kUsable, kDamaged, kOlder, kUntouchable };

struct Found {
  State state = State::kUsable;
  TuningCache cache;
  std::string problem;  // unless usable
  std::string version;  // of an older file
};

// "1.10.2" as numbers; empty when it is no version.
std::vector<int> version_numbers(std::string_view text) {
  std::vector<int> numbers;
  while (true) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0 || digits > 6) return {};
    numbers.push_back(std::stoi(std::string(text.substr(0, digits))));
    if (digits == text.size()) return numbers;
    if (text[digits] != '.') return {};
    text.remove_prefix(digits + 1);
  }
}

Found examine(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return {};
  if (status.type() != fs::file_type::regular) {
    return {State::kUntouchable, {}, error ? error.message() : "not a regular file", {}};
  }
  if (fs::file_size(path, error) > kMaxBytes) {
    return {State::kUntouchable, {}, "too large for a tuning cache", {}};
  }
  std::string text;
  try {
    text = read_file(path);
  } catch (const FormatError&) {
    // It may have been set aside since; a file that still exists cannot be read.
    if (!fs::exists(path, error)) return {};
    return {State::kUntouchable, {}, "cannot be read", {}};
  }
  if (text.empty()) return {};  // what a machine that lost power may leave
  const std::string version(text_version(text));
  if (version != STRETTO_VERSION) {
    const std::vector<int> theirs = version_numbers(version);
    if (theirs.empty()) {
      return {State::kDamaged, {}, "line 1: expected 'stretto-tuning-cache' and a version", {}};
    }
    if (theirs < version_numbers(STRETTO_VERSION)) return {State::kOlder, {}, "old", version};
    return {
        State::kUntouchable, {}, fmt::format("written by Stretto {}, which is newer", version), {}};
  }
  try {
    return {State::kUsable, TuningCache::parse(text, path), {}, {}};
  } catch (const FormatError& damage) {
    return {State::kDamaged, {}, std::string(damage.what()).substr(path.size() + 2), {}};
  }
}

void warn(const std::string& path, std::string_view what) {
  log_once(LogLevel::kWarning, fmt::format("tuning cache {}: {}", path, what));
}

// Only with the lock held. Throws when the folder refuses.
void set_aside(const std::string& path, std::string_view suffix, std::string_view why) {
  std::string name = fmt::format("{}.{}", path, suffix);
  for (int number = 1; fs::exists(name); ++number) {
    name = fmt::format("{}.{}.{}", path, suffix, number);
  }
  fs::rename(path, name);
  warn(path, fmt::format("{}; renamed to {}, and a new one is started", why, name));
}

// Where the file really is: a link stays a link.
std::string real_path(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real.string();
}

void warn_left_alone(const std::string& path, std::string_view problem) {
  warn(path, fmt::format("{}; it is left alone, and choices are neither read from it nor saved "
                         "(STRETTO_TUNING_CACHE names another file)",
                         problem));
}

// Lets `edit` change what the file knows, under its lock, and renames a new file into place.
bool change(const std::string& name, const std::function<void(TuningCache&)>& edit) {
  const std::string path = real_path(name);
  try {
    if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) {
      fs::create_directories(folder);
    }
    // Before the lock file appears beside a file that is not ours.
    Found there = examine(path);
    if (there.state != State::kUntouchable) {
      const FileLock lock(path + ".lock", kPatience_s);
      if (!lock.held()) throw std::runtime_error(lock.problem());
      there = examine(path);
      if (there.state == State::kDamaged) set_aside(path, "damaged", "damaged: " + there.problem);
      if (there.state == State::kOlder) {
        set_aside(path, there.version, "written by Stretto " + there.version);
      }
      if (there.state != State::kUntouchable) {
        edit(there.cache);
        write_file(path, there.cache.text());
        return true;
      }
    }
    warn_left_alone(path, there.problem);
  } catch (const std::exception& error) {
    warn(path, fmt::format("cannot be saved: {}", error.what()));
  }
  return false;
}

}  // namespace

std::string tuning_cache_path(const std::string& option) {
  std::string path = option;
  if (path.empty()) {
    if (const char* value = std::getenv("STRETTO_TUNING_CACHE")) path = value;
  }
  if (path == "none") return "";
  return path.empty() ? cache_directory() + "/tuning-cache-" STRETTO_VERSION ".tsv" : path;
}

TuningCache load_tuning_cache(const std::string& name) {
  if (name.empty()) return {};
  const std::string path = real_path(name);
  Found found = examine(path);
  if (found.state == State::kDamaged) {
    const FileLock lock(path + ".lock", kPatience_s);
    found = examine(path);  // another process may have set it aside
    if (found.state == State::kDamaged) try {
        if (!lock.held()) throw std::runtime_error(lock.problem());
        set_aside(path, "damaged", "damaged: " + found.problem);
      } catch (const std::exception& error) {
        warn(path,
             fmt::format("damaged: {}; it cannot be set aside: {}", found.problem, error.what()));
      }
  }
  if (found.state == State::kUntouchable) warn_left_alone(path, found.problem);
  return std::move(found.cache);
}

bool add_to_tuning_cache(const std::string& path, const TuningCache& found) {
  if (path.empty() || found.empty()) return true;
  return change(path, [&](TuningCache& cache) { cache.merge(found); });
}

bool forget_in_tuning_cache(const std::string& path, const TuningCache& choices) {
  if (path.empty() || choices.empty()) return true;
  return change(path, [&](TuningCache& cache) { cache.forget(choices); });
}

}  // namespace stretto::tune
