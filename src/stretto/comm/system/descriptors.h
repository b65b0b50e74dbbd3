// The number of files and sockets that this process may open.
#pragma once

#include <cstdint>
#include <string>

namespace stretto::comm {

// Raises the soft limit to the hard one if it is below `needed`. Best effort.
void raise_descriptor_limit(int64_t needed);

int64_t descriptor_limit();  // the soft one

// Whether errno says that descriptors ran out, of the process or of the system.
bool out_of_descriptors(int error);

// "this process may open 64 files (ulimit -n) and needs about 150; raise the limit". more: how many
// it cannot open now.
std::string descriptor_advice(int64_t more);

}  // namespace stretto::comm
