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

std::string fill_page(std::string_view heading, std::string_view script,
                      const nlohmann::json& content) {
  const std::string data =
      script_safe(content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const std::string safe_heading = html_safe(heading);
  const std::string code = std::string(parts_text()) + std::string(script);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"{{title}}", safe_heading}, {"{{style}}", style_text()}, {"{{chart}}", chart_text()},
      {"{{script}}", code},        {"{{data}}", data},
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
    for (const auto& [mark, part] : parts) {
      if (!rest.starts_with(mark)) continue;
      page += part;
      rest.remove_prefix(mark.size());
      filled = true;
      break;
    }
    STRETTO_CHECK(filled, "report: unknown mark in page.html: {}", rest.substr(0, 20));
  }
  return page;
}

nlohmann::json parse_object(std::string_view json) {
  nlohmann::json object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) throw_invalid("report: expected a JSON object");
  return object;
}

}  // namespace

std::string report_html(std::string_view json) {
  const nlohmann::json report = parse_object(json);
  return fill_page(title(report), script_text(), report);
}

std::string simulation_html(std::string_view json) {
  return fill_page("What a policy would do - Stretto", simulation_text(), parse_object(json));
}

std::string_view report_style() { return style_text(); }

}  // namespace stretto::report
