#include "stretto/base/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "stretto/base/error.h"

namespace stretto {
namespace {

// Sets STRETTO_ISA until the end of the scope.
class WithVariable {
 public:
  explicit WithVariable(const char* value) {
    if (const char* before = std::getenv("STRETTO_ISA")) before_ = before;
    setenv("STRETTO_ISA", value, 1);
  }
  ~WithVariable() {
    if (before_)
      setenv("STRETTO_ISA", before_->c_str(), 1);
    else
      unsetenv("STRETTO_ISA");
  }

 private:
  std::optional<std::string> before_;
};

TEST(Cpu, NamesOfInstructionSetsRoundTrip) {
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    EXPECT_EQ(parse_isa(isa_name(isa)), isa);
  }
  EXPECT_EQ(isa_name(Isa::kNeon), "neon");
  EXPECT_THROW(parse_isa("sve"), InvalidArgument);
}

TEST(Cpu, FilesNameEveryArchitectureAndUsersOnlyTheirOwn) {
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    const bool own = std::find(kIsas.begin(), kIsas.end(), isa) != kIsas.end();
    if (own || isa == Isa::kPortable) {
      EXPECT_EQ(parse_own_isa(isa_name(isa)), own ? isa : kIsas.front());
    } else {
      EXPECT_THROW(parse_own_isa(isa_name(isa)), InvalidArgument);
      const WithVariable variable(isa_name(isa).data());
      EXPECT_THROW(usable_isa(), InvalidArgument);
    }
  }
}

TEST(Cpu, TheUsableOnesEndWithTheCap) {
  EXPECT_TRUE(std::is_sorted(kIsas.begin(), kIsas.end()));
  for (const Isa isa : kIsas) {
    const WithVariable variable(isa_name(isa).data());
    const auto usable = usable_isas();
    ASSERT_FALSE(usable.empty());
    EXPECT_EQ(usable.front(), kIsas.front());
    EXPECT_EQ(usable.back(), std::min(isa, cpu_info().isa));
    EXPECT_EQ(usable.back(), usable_isa());
  }
}

TEST(Cpu, VectorsOfTheBaselinesAreAsLong) {
  EXPECT_EQ(isa_lanes(Isa::kNeon), 4);
  EXPECT_EQ(isa_lanes(Isa::kPortable), 4);
}

}  // namespace
}  // namespace stretto
