#include "stretto/runtime/open_trials.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "stretto/base/error.h"

namespace stretto::runtime {
namespace {

// Why the model cannot have these shapes; empty if it can.
std::string refusal(const ProgramsByShape& by_shape, const std::vector<Shape>& shapes) {
  try {
    by_shape.import(shapes);
    return "";
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const Unsupported& error) {
    return error.what();
  }
}

// Whether the model can have other sizes than those it is optimised for.
bool takes_others(const ProgramsByShape& by_shape, const Opening& opening) {
  return refusal(by_shape, opening.other).empty() || refusal(by_shape, opening.doubled).empty();
}

}  // namespace

Opening really_open(const ProgramsByShape& by_shape, Opening opening, const std::string& file,
                    std::vector<std::string>& notes) {
  const std::string why = refusal(by_shape, opening.other);
  if (why.empty()) return opening;
  const std::string other = opening.text(opening.other);
  if (opening.asked) {
    throw_invalid("{}: the model cannot be had for {}, which the ranges allow: {}", file, other,
                  why);
  }
  if (refusal(by_shape, opening.doubled).empty()) return opening;
  const std::vector<OpenPlaces> all = open_places(opening);
  constexpr size_t kMost = 16;  // every trial imports the model
  if (all.size() > 1 && all.size() <= kMost) {
    OpenPlaces fixed;  // where a change alone is refused
    std::optional<Opening> found;
    for (size_t i = 0; !found && i < all.size(); ++i) {
      Opening one = with_fixed(opening, all[i]);
      if (takes_others(by_shape, one)) {
        found = std::move(one);
        fixed = all[i];
      }
    }
    for (size_t i = 0; !found && i < all.size(); ++i) {
      Opening alone = opening;
      for (size_t k = 0; k < all.size(); ++k) {
        if (k != i) alone = with_fixed(std::move(alone), all[k]);
      }
      if (!takes_others(by_shape, alone)) fixed.insert(fixed.end(), all[i].begin(), all[i].end());
    }
    if (!found) found = with_fixed(opening, fixed);
    if (!found->fixed() && takes_others(by_shape, *found)) {
      for (const auto& [i, axis] : fixed) {
        notes.push_back(
            fmt::format("dimension {} of input {}, which the file leaves open, is fixed at {}: the "
                        "model cannot be had for other sizes of it",
                        axis, opening.inputs[i].name, opening.first[i][axis]));
      }
      return *found;
    }
  }
  for (const OpenPlaces& places : all) {
    opening = with_fixed(std::move(opening), places);
  }
  notes.push_back(fmt::format(
      "dimensions that the file leaves open are fixed: the model cannot be had for {}", other));
  return opening;
}

}  // namespace stretto::runtime
