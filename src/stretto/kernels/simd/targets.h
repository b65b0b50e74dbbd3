// Where kernel files get their instruction sets from: the pattern and its rules are described
// there.
#pragma once

#include "stretto/base/simd_targets.h"
