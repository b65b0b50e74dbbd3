// The report page: from the JSON of docs/formats/report.md to one self-contained HTML file.
#pragma once

#include <string>
#include <string_view>

namespace stretto::report {

// A page with plots and tables that loads nothing from anywhere. Fields that are missing leave out
// what they would show. Throws InvalidArgument when `json` is not a JSON object.
std::string report_html(std::string_view json);

// The style sheet of that page, for others that shall look alike.
std::string_view report_style();

}  // namespace stretto::report
