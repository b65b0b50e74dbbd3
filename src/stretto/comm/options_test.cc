#include "stretto/comm/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

TEST(Options, ReadsTheEnvironmentAndNamesABadVariable) {
  setenv("STRETTO_STREAMS", "5", 1);
  setenv("STRETTO_INTERFACES", "eth0,eth1", 1);
  const Options options = Options::from_environment();
  EXPECT_EQ(options.streams, 5);
  EXPECT_EQ(options.interfaces, (std::vector<std::string>{"eth0", "eth1"}));
  setenv("STRETTO_STREAMS", "auto", 1);
  EXPECT_EQ(Options::from_environment().streams, 0);
  setenv("STRETTO_STREAMS", "many", 1);
  try {
    Options::from_environment();
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgument& e) {
    EXPECT_STREQ(e.what(), "STRETTO_STREAMS: 'many' is not auto or a number from 1 to 64");
  }
  unsetenv("STRETTO_STREAMS");
  unsetenv("STRETTO_INTERFACES");
}

TEST(Options, RefusesCodecsAndPoliciesThatDoNotExist) {
  setenv("STRETTO_CODEC", "powersgd", 1);
  setenv("STRETTO_STEP_POLICY", "local:8", 1);
  EXPECT_EQ(Options::from_environment().codec, "powersgd");
  const StepPolicy policy = parse_step_policy(Options::from_environment().step_policy);
  EXPECT_EQ(policy.kind, StepPolicy::Kind::kLocal);
  EXPECT_EQ(policy.interval, 8);
  EXPECT_FALSE(policy.overlap);
  EXPECT_TRUE(parse_step_policy("gossip:4:overlap").overlap);
  EXPECT_EQ(parse_step_policy("gossip:4:overlap").interval, 4);
  EXPECT_THROW(parse_step_policy("accumulate:4:overlap"), InvalidArgument);
  setenv("STRETTO_CODEC", "zip", 1);
  EXPECT_THROW(Options::from_environment(), InvalidArgument);
  unsetenv("STRETTO_CODEC");
  setenv("STRETTO_STEP_POLICY", "local:0", 1);
  EXPECT_THROW(Options::from_environment(), InvalidArgument);
  unsetenv("STRETTO_STEP_POLICY");
  EXPECT_THROW(parse_step_policy("sometimes"), InvalidArgument);
}

TEST(Options, MacIsAutoOnOrOff) {
  EXPECT_EQ(Options().mac, MacUse::kAuto);
  setenv("STRETTO_MAC", "on", 1);
  EXPECT_EQ(Options::from_environment().mac, MacUse::kOn);
  setenv("STRETTO_MAC", "yes", 1);
  EXPECT_THROW(Options::from_environment(), InvalidArgument);
  unsetenv("STRETTO_MAC");
}

TEST(Options, TuningIsOffQuickOrFull) {
  EXPECT_EQ(Options().tuning, Tuning::kQuick);
  setenv("STRETTO_TUNING", "full", 1);
  EXPECT_EQ(Options::from_environment().tuning, Tuning::kFull);
  setenv("STRETTO_TUNING", "on", 1);
  try {
    Options::from_environment();
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgument& e) {
    EXPECT_STREQ(e.what(), "STRETTO_TUNING: expected one of off, quick, full, got 'on'");
  }
  unsetenv("STRETTO_TUNING");
}

TEST(Options, DefaultsPassTheCheckAndDescribeThemselves) {
  EXPECT_NO_THROW(check(Options()));
  for (const OptionRow& row : describe(Options())) {
    EXPECT_EQ(row.value, row.default_value) << row.variable;
    EXPECT_FALSE(row.allowed.empty()) << row.variable;
    EXPECT_TRUE(row.meaning.ends_with('.')) << row.variable;
  }
}

TEST(Options, CheckNamesTheVariableOfAWrongValue) {
  const auto error_of = [](auto change) -> std::string {
    Options options;
    change(options);
    try {
      check(options);
    } catch (const InvalidArgument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error_of([](Options& o) { o.transports = "tcp,udp"; }),
            "STRETTO_TRANSPORTS: expected shm, tcp or both, got 'udp'");
  EXPECT_EQ(error_of([](Options& o) { o.transports = ""; }),
            "STRETTO_TRANSPORTS: expected shm, tcp or both, got nothing");
  EXPECT_EQ(error_of([](Options& o) { o.silent_limit_s = 0; }),
            "STRETTO_SILENT_LIMIT: '0' is not a number from 0.1 to 1000000");
  EXPECT_EQ(error_of([](Options& o) { o.silent_limit_s = std::nan(""); }),
            "STRETTO_SILENT_LIMIT: 'nan' is not a number from 0.1 to 1000000");
  EXPECT_EQ(error_of([](Options& o) { o.host = std::string(5000, 'h'); }),
            "STRETTO_HOST: a name has at most 255 bytes, this one has 5000");
  EXPECT_NE(error_of([](Options& o) { o.algorithm = "tree"; }).find("expected one of auto, "),
            std::string::npos);
}

TEST(Options, TheSecretIsNotShown) {
  Options options;
  options.secret = "hidden";
  for (const OptionRow& row : describe(options))
    EXPECT_EQ(row.value.find("hidden"), row.value.npos);
}

}  // namespace
}  // namespace stretto::comm
