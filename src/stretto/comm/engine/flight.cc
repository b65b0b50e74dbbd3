// When and where the flight record is written.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "stretto/base/clock.h"
#include "stretto/base/file.h"
#include "stretto/base/log.h"
#include "stretto/comm/engine/inside.h"

namespace stretto::comm {
namespace {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Others could have made a folder of this name first.
bool is_ours_alone(const std::string& folder) {
  struct stat info {};
  return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

// Throws FormatError.
std::string made_folder(const std::string& chosen) {
  std::string folder = chosen;
  std::error_code error;
  if (!folder.empty()) {
    std::filesystem::create_directories(folder, error);
    if (error)
      throw FormatError(folder, -1, "the folder cannot be made: " + error.message(), error.value());
    return folder;
  }
  const char* temporary = std::getenv("TMPDIR");
  folder =
      fmt::format("{}/stretto-dump-{}", temporary && *temporary ? temporary : "/tmp", geteuid());
  mkdir(folder.c_str(), S_IRWXU);
  if (!is_ours_alone(folder))
    throw FormatError(folder, -1,
                      "the folder for flight records must belong to this user alone; name another "
                      "with STRETTO_DUMP");
  return folder;
}

}  // namespace

std::string EngineImpl::flight_json(std::string_view reason) {
  Inside inside(*this);
  return closed_ ? "" : flight_text(reason);
}

std::string EngineImpl::flight_text(std::string_view reason) const {
  FlightRecorder::Context context{.membership = membership_,
                                  .host = options_.host.empty() ? host_name() : options_.host,
                                  .reason = std::string(reason),
                                  .groups = {},
                                  .pending = {},
                                  .peers = {}};
  for (const auto& [id, state] : groups_.all()) {
    if (!state->internal)
      context.groups.push_back({id, state->name, state->ranks, state->next_sequence});
  }
  for (const auto& [handle, open] : operations_.all()) {
    if (!open->done) context.pending.push_back({open.get(), units_->awaited(open.get())});
  }
  for (const auto& link : links_->all()) {
    if (link)
      context.peers.push_back(
          {link->rank(), link->alive(), link->departed, now_s() - link->last_heard_s()});
  }
  return flight_.json(context);
}

// Written before operations are stopped, because what they wait for is known only until then.
void EngineImpl::keep_flight(std::string_view reason, bool failed) {
  if (failed)
    log_message(LogLevel::kWarning,
                fmt::format("rank {}: the job ends: {}", membership_.rank, reason));
  if (options_.dump == "none") return;
  try {
    const std::string file =
        fmt::format("{}/rank-{:05}.json", made_folder(options_.dump), membership_.rank);
    write_file(file, flight_text(reason));
    log_message(failed ? LogLevel::kInfo : LogLevel::kWarning,
                fmt::format("rank {}: its last operations are in {}; `stretto run --dump` "
                            "shows them",
                            membership_.rank, file));
  } catch (const std::exception& e) {
    log_message(LogLevel::kWarning, fmt::format("rank {}: its last operations are lost: {}",
                                                membership_.rank, e.what()));
  }
}

void EngineImpl::on_dump_signal() {
  Inside inside(*this);
  if (!closed_) keep_flight("SIGUSR2", false);
}

}  // namespace stretto::comm
