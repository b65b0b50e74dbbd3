// Which dimensions of a model are open in fact: found by importing it for other sizes.
#pragma once

#include <string>
#include <vector>

#include "stretto/runtime/opening.h"
#include "stretto/runtime/programs_by_shape.h"

namespace stretto::runtime {

// Files leave dimensions open that only one size fits: then the model is as if those had been
// fixed, and notes say why. What the caller asked for must be possible:
// throws InvalidArgument.
Opening really_open(const ProgramsByShape& by_shape, Opening opening, const std::string& file,
                    std::vector<std::string>& notes);

}  // namespace stretto::runtime
