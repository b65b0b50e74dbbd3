#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "streams.h"
#include "stretto/base/clock.h"

namespace stretto::cli {
namespace {

constexpr int kBarWidth = 30;

struct Bar {
  double started_s = now_s(), drawn_s = 0;
  std::string stage;
};

void draw(Bar& bar, std::string_view stage, double fraction) {
  const double now = now_s();
  if (stage == bar.stage && fraction < 1 && now - bar.drawn_s < 0.1) return;
  bar.stage = stage;
  bar.drawn_s = now;
  const int full = static_cast<int>(kBarWidth * std::clamp(fraction, 0.0, 1.0));
  std::string blocks;
  for (int i = 0; i < kBarWidth; ++i) blocks += i < full ? "█" : "░";
  say(fmt::format("\r\x1b[K{:<10.10} {} {:3.0f} % {:5.1f} s", stage, blocks, 100 * fraction,
                  now - bar.started_s));
}

std::function<void(std::string_view, double)> stage_lines() {
  return [last = std::make_shared<std::string>(), start = now_s()](std::string_view stage, double) {
    if (stage == *last) return;
    *last = stage;
    say(fmt::format("stretto: {:6.1f} s  {}\n", now_s() - start, stage));
  };
}

}  // namespace

std::function<void(std::string_view, double)> progress_bar(const Talk& talk) {
  if (talk.verbose) return stage_lines();
  if (talk.quiet || !isatty(STDERR_FILENO)) return {};
  return [bar = std::make_shared<Bar>()](std::string_view stage, double fraction) {
    draw(*bar, stage, fraction);
  };
}

void end_progress() {
  if (isatty(STDERR_FILENO)) say("\r\x1b[K");
}

}  // namespace stretto::cli
