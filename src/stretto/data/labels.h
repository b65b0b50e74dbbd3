// Labels as sources write them: numbers, or names that are numbered in their order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "stretto/data/index.h"

namespace stretto::data {

// Collects the labels of a source; those of samples and of annotations are of one kind. add_...()
// gives what goes into the table until finish().
class Labels {
 public:
  // Throws FormatError with `where` if labels that came before are of the other kind, and if the
  // number is below -1, which is no label.
  int64_t add_number(int64_t number, const std::string& where);
  int64_t add_name(std::string_view name, const std::string& where);

  // A number where the text is one, also as "3.0"; else a name.
  int64_t add_text(std::string_view text, const std::string& where);

  // Names get the places that they have when they are sorted, and become the class names.
  void finish(TableBuilder& builder) const;

 private:
  bool numbers_ = false;
  std::map<std::string, int64_t, std::less<>> names_;
};

}  // namespace stretto::data
