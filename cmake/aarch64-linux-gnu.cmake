# Cross-compiles for 64-bit Arm with the packages of cmake/arm-packages.txt, and runs what was
# compiled under emulation: ctest finds CMAKE_CROSSCOMPILING_EMULATOR itself.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# -L: where the loader and the C and C++ libraries of that architecture are.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
