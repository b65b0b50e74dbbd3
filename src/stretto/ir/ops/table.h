// Rows of the operator table, declared one per line. Definitions live in the file named after the
// operator (or its group of siblings); table.cc lists them.
#pragma once

#include "stretto/ir/operator.h"

namespace stretto::ir::ops {

extern const Operator kIdentity;

}  // namespace stretto::ir::ops
