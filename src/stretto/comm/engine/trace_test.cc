#include "stretto/comm/engine/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stretto::comm {
namespace {

OpenOperation operation(std::string name, double submitted_s) {
  OpenOperation open;
  open.operation = {.count = 4, .name = std::move(name)};
  open.submitted_s = open.started_s = submitted_s;
  return open;
}

size_t events_of(const std::string& text, const std::string& name) {
  if (text.empty()) return 0;
  size_t count = 0;
  const auto trace = nlohmann::json::parse(text);
  for (const auto& event : trace["traceEvents"])
    count += event["name"].get<std::string>().find(name) != std::string::npos;
  return count;
}

TEST(Trace, CouldNotBeStartedAndStopped) {
  Trace trace(false, 0);
  trace.operation(operation("before", 1), 1.5);
  EXPECT_EQ(trace.json(), "");
  trace.start(2);
  trace.operation(operation("inside", 3), 3.5);
  const std::string text = trace.stop();
  EXPECT_EQ(events_of(text, "before"), 0u);
  EXPECT_EQ(events_of(text, "inside"), 2u);  // ready, queue
  trace.operation(operation("after", 4), 4.5);
  EXPECT_EQ(trace.stop(), "");
  EXPECT_FALSE(trace.on());
}

TEST(Trace, OfTheWholeJobGoesOn) {
  Trace trace(true, 0);
  trace.operation(operation("before", 1), 1.5);
  trace.start(2);
  trace.operation(operation("inside", 3), 3.5);
  EXPECT_EQ(events_of(trace.stop(), "before"), 0u);
  trace.operation(operation("after", 4), 4.5);
  for (const char* name : {"before", "inside", "after"})
    EXPECT_EQ(events_of(trace.json(), name), 2u) << name;
}

TEST(Trace, UnitsThatBeganBeforeItAreLeftOut) {
  Trace trace(false, 0);
  const OpenOperation open = operation("half", 1);
  trace.start(2);
  trace.unit(open, 0, 0, 2.5);  // nobody noted when it began
  trace.unit(open, 1, 2.2, 2.5);
  EXPECT_EQ(events_of(trace.stop(), "half"), 1u);
}

}  // namespace
}  // namespace stretto::comm
