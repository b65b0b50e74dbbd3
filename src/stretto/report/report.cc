#include "stretto/report/report.h"

#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/report/embedded.h"

namespace stretto::report {
namespace {

// Inside <script> only "</script" and "<!--" end or change anything, and in JSON both can be
// written without the "<".
std::string script_safe(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string html_safe(std::string_view text) {
  std::string safe;
  for (char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string title(const nlohmann::json& report) {
  const auto model = report.find("model");
  if (model == report.end() || !model->is_object()) return "Stretto report";
  const auto name = model->find("name");
  if (name == model->end() || !name->is_string()) return "Stretto report";
  return name->get<std::string>() + " - Stretto report";
}

}  // namespace

std::string report_html(std::string_view json) {
  const nlohmann::json report = nlohmann::json::parse(json, nullptr, false);
  if (!report.is_object()) throw_invalid("report: expected a JSON object");
  const std::string data =
      script_safe(report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const std::string heading = html_safe(title(report));
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"{{title}}", heading},        {"{{style}}", style_text()}, {"{{chart}}", chart_text()},
      {"{{script}}", script_text()}, {"{{data}}", data},
  };
  // One pass over the frame: what is filled in is never searched again.
  std::string page;
  std::string_view rest = page_text();
  while (!rest.empty()) {
    const size_t open = rest.find("{{");
    page += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    rest.remove_prefix(open);
    bool filled = false;
    for (const auto& [mark, content] : parts) {
      if (!rest.starts_with(mark)) continue;
      page += content;
      rest.remove_prefix(mark.size());
      filled = true;
      break;
    }
    STRETTO_CHECK(filled, "report: unknown mark in page.html: {}", rest.substr(0, 20));
  }
  return page;
}

std::string_view report_style() { return style_text(); }

}  // namespace stretto::report
