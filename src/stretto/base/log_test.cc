#include "stretto/base/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace stretto {
namespace {

// Takes messages while it lives.
class Listener {
 public:
  Listener()
      : before_(set_log([this](LogLevel level, std::string_view message) {
          heard.push_back(std::string(log_level_name(level)) + ": " + std::string(message));
        })) {}
  ~Listener() { set_log(std::move(before_)); }
  std::vector<std::string> heard;

 private:
  LogCallback before_;
};

TEST(Log, GivesMessagesToTheCallbackAndDropsThemWithout) {
  log_message(LogLevel::kWarning, "nobody hears this");
  Listener listener;
  log_message(LogLevel::kWarning, "one");
  log_message(LogLevel::kInfo, "two");
  set_log({});
  log_message(LogLevel::kWarning, "three");
  EXPECT_EQ(listener.heard, (std::vector<std::string>{"warning: one", "info: two"}));
}

TEST(Log, OnceIsOncePerProcessAndNotSpentWithoutACallback) {
  log_once(LogLevel::kWarning, "a damaged file");
  Listener listener;
  log_once(LogLevel::kWarning, "a damaged file");
  log_once(LogLevel::kWarning, "a damaged file");
  EXPECT_EQ(listener.heard.size(), 1u);
}

TEST(Log, ReplacingTheCallbackWhileOthersSpeakIsSafe) {
  std::atomic<int> heard = 0;
  const LogCallback count = [&](LogLevel, std::string_view) { ++heard; };
  LogCallback before = set_log(count);
  std::vector<std::thread> speakers;
  for (int i = 0; i < 4; ++i) {
    speakers.emplace_back([] {
      for (int k = 0; k < 1000; ++k) log_message(LogLevel::kInfo, "word");
    });
  }
  for (int k = 0; k < 1000; ++k) set_log(count);
  for (std::thread& speaker : speakers) speaker.join();
  set_log(std::move(before));
  EXPECT_EQ(heard, 4000);
}

}  // namespace
}  // namespace stretto
