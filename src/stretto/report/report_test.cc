#include "stretto/report/report.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::report {
namespace {

TEST(Report, HoldsTheDataAndLoadsNothing) {
  const std::string page = report_html(R"({"model": {"name": "resnet50"}})");
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_NE(page.find("<title>resnet50 - Stretto report</title>"), std::string::npos);
  EXPECT_NE(page.find(R"({"model":{"name":"resnet50"}})"), std::string::npos);
  EXPECT_NE(page.find("Chart.js v"), std::string::npos) << "the plotting library is not inside";
  for (const char* remote : {"src=\"http", "href=\"http", "@import", "url(http"}) {
    EXPECT_EQ(page.find(remote), std::string::npos) << remote;
  }
}

TEST(Report, TextFromAModelCannotBecomeMarkup) {
  const std::string page = report_html(R"({"model": {"name": "</script><script>alert(1)//<!--"}})");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<!--"), std::string::npos);
}

TEST(Report, MarksInTheDataStayText) {
  const std::string page = report_html(R"({"model": {"name": "{{script}} {{nothing}}"}})");
  EXPECT_NE(page.find("{{script}} {{nothing}} - Stretto report"), std::string::npos);
}

TEST(Report, BytesThatAreNoUtf8DoNotBreakIt) {
  EXPECT_NO_THROW(report_html("{\"model\": {\"name\": \"a\\u0000b\"}}"));
  EXPECT_THROW(report_html("{\"model\": \"\xff\"}"), InvalidArgument);
}

TEST(Report, RefusesWhatIsNoObject) {
  for (const char* text : {"", "[]", "3", "{", "null"}) {
    EXPECT_THROW(report_html(text), InvalidArgument) << text;
  }
}

TEST(Report, FieldsOfTheWrongKindAreLeftToThePage) {
  EXPECT_NO_THROW(report_html(R"({"model": 3, "latency": [], "operators": "none"})"));
}

}  // namespace
}  // namespace stretto::report
