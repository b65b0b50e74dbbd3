// Texts of real and written versions of scontrol are compared by
// tests/python/test_cluster_check.py.
#include "stretto/cluster/slurm/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/cluster/slurm/accounting.h"
#include "stretto/cluster/slurm/scontrol.h"

namespace stretto::cluster {
namespace {

// Two lines of scontrol for a site of one group.
const char* const kSite =
    "[[nodes]]\nnames = \"m[0-1]\"\nchip = \"v100\"\nchips = 8\ncores = 16\n"
    "[limits]\nmax_time = \"2h\"\n";

SlurmText text_of_site() {
  SlurmText text;
  text.config =
      "Configuration data as of 2024-01-01T00:00:00\nEnforcePartLimits       = ALL\n"
      "GresTypes               = gpu,mps\nJobSubmitPlugins        = lua,throttle\n"
      "PreemptMode             = REQUEUE\nPreemptType             = preempt/partition_prio\n"
      "PriorityType            = priority/multifactor\nPriorityWeightPartition = 10000\n"
      "SelectType              = select/cons_tres\nTaskProlog              = (null)\n"
      "\nSlurmctld(primary) at host is UP\n";
  for (const char* node : {"m0", "m1"}) {
    text.nodes += std::string("NodeName=") + node +
                  " CPUTot=16 AvailableFeatures=fast,v100,all Gres=gpu:v100:4(S:0),gpu:v100:4(S:1)"
                  " OS=Linux 6.1 #1 SMP Weight=10 Comment=Weight=3 Gres=(null)\n";
  }
  text.partitions =
      "PartitionName=normal.all Default=YES DefaultTime=01:00:00 MaxNodes=UNLIMITED "
      "MaxTime=02:00:00 Nodes=m0,m1 PriorityJobFactor=10 PriorityTier=10 PreemptMode=OFF State=UP "
      "QoS=N/A\n";
  text.reservations = "No reservations in the system\n";
  return text;
}

std::string in_words(const std::vector<Difference>& all) {
  std::string out;
  for (const Difference& each : all) {
    out += each.what + "|" + each.key + "|" + each.expected + "|" + each.found + "|" +
           std::to_string(each.line) + "\n";
  }
  return out;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
}

TEST(CheckSlurm, WhatFitsHasNoDifferences) {
  EXPECT_EQ(in_words(slurm_differences(parse_site(kSite, "s"), text_of_site())), "");
}

TEST(CheckSlurm, EveryFieldThatIsWrittenIsCompared) {
  const Site site = parse_site(kSite, "s");
  const struct {
    std::string SlurmText::*text;
    const char *from, *to, *expected;
  } kCases[] = {
      {&SlurmText::config, "lua,throttle", "throttle",
       "slurm.conf|JobSubmitPlugins|lua|throttle|0"},
      {&SlurmText::config, "lua,throttle", "(null)", "slurm.conf|JobSubmitPlugins|lua||0"},
      {&SlurmText::config, "gpu,mps", "mps", "slurm.conf|GresTypes|gpu|mps|0"},
      {&SlurmText::config, "cons_tres", "linear",
       "slurm.conf|SelectType|select/cons_tres|select/linear|0"},
      {&SlurmText::config, "= ALL", "= NO", "slurm.conf|EnforcePartLimits|ALL|NO|0"},
      {&SlurmText::config, "= 10000", "= 0", "slurm.conf|PriorityWeightPartition|10000|0|0"},
      {&SlurmText::config, "= REQUEUE", "= CANCEL", "slurm.conf|PreemptMode|REQUEUE|CANCEL|0"},
      {&SlurmText::config, "preempt/partition_prio", "(null)",
       "slurm.conf|PreemptType|preempt/partition_prio||0"},
      {&SlurmText::config, "priority/multifactor", "priority/basic",
       "slurm.conf|PriorityType|priority/multifactor|priority/basic|0"},
      {&SlurmText::nodes, "NodeName=m0 ", "NodeName=m9 ", "node m0||a node||1"},
      {&SlurmText::nodes, "CPUTot=16", "CPUTot=8", "node m0|CPUTot|16|8|1"},
      {&SlurmText::nodes, "gpu:v100:4(S:0)", "gpu:k80:4(S:0)",
       "node m0|Gres|gpu:v100:8|gpu:k80:4,gpu:v100:4|1"},
      {&SlurmText::nodes, "fast,v100,all", "fast", "node m0|AvailableFeatures|v100,all||1"},
      {&SlurmText::nodes, "Weight=10", "Weight=1", "node m0|Weight|10|1|1"},
      {&SlurmText::partitions, "PartitionName=normal.all", "PartitionName=old.all",
       "partition normal.all||a partition||1\npartition old.all|Nodes||m[0-1]|0"},
      {&SlurmText::partitions, "Nodes=m0,m1", "Nodes=m[0-2]",
       "partition normal.all|Nodes|m[0-1]|m[0-2]|1"},
      {&SlurmText::partitions, "Nodes=m0,m1", "Nodes=(null)",
       "partition normal.all|Nodes|m[0-1]||1"},
      {&SlurmText::partitions, "PriorityTier=10", "PriorityTier=1",
       "partition normal.all|PriorityTier|10|1|1"},
      {&SlurmText::partitions, "Factor=10", "Factor=1",
       "partition normal.all|PriorityJobFactor|10|1|1"},
      {&SlurmText::partitions, "PreemptMode=OFF", "PreemptMode=REQUEUE",
       "partition normal.all|PreemptMode|OFF|REQUEUE|1"},
      {&SlurmText::partitions, "MaxTime=02:00:00", "MaxTime=1-02:00:00",
       "partition normal.all|MaxTime|0-02:00:00|1-02:00:00|1"},
      {&SlurmText::partitions, "DefaultTime=01:00:00", "DefaultTime=NONE",
       "partition normal.all|DefaultTime|0-01:00:00|NONE|1"},
      {&SlurmText::partitions, "MaxNodes=UNLIMITED", "MaxNodes=1",
       "partition normal.all|MaxNodes|UNLIMITED|1|1"},
      {&SlurmText::partitions, "Default=YES", "Default=NO",
       "partition normal.all|Default|YES|NO|1"},
      {&SlurmText::partitions, "State=UP", "State=DOWN", "partition normal.all|State|UP|DOWN|1"},
      {&SlurmText::partitions, "DefaultTime=01:00:00", "DefaultTime=00:00:00",
       "partition normal.all|DefaultTime|0-01:00:00|00:00:00|1"},
      {&SlurmText::partitions, "Nodes=m0,m1", "Nodes=rack[0-1]n[0-3],m0,m1",
       "partition normal.all|Nodes|m[0-1]|rack[0-1]n[0-3],m0,m1|1"},
      {&SlurmText::reservations, "No reservations in the system",
       "ReservationName=gift Nodes=m[1-5] Flags=SPEC_NODES", "reservation gift|Nodes||m1|0"},
  };
  for (const auto& each : kCases) {
    SlurmText live = text_of_site();
    replace(live.*each.text, each.from, each.to);
    EXPECT_EQ(in_words(slurm_differences(site, live)), std::string(each.expected) + "\n")
        << each.from;
  }
}

TEST(CheckSlurm, WhatTheSiteFileDoesNotSpeakOfIsNoDifference) {
  SlurmText live = text_of_site();
  live.nodes += "NodeName=login0 CPUTot=2 Gres=(null) Weight=1\n";
  live.partitions +=
      "PartitionName=other Nodes=x[0-9] State=UP\nPartitionName=root Nodes=m0 RootOnly=YES "
      "State=UP\n"
      "PartitionName=off Nodes=m0 State=INACTIVE\nPartitionName=none Nodes=(null) State=UP\n";
  live.reservations = "ReservationName=repair Nodes=m0 Flags=MAINT,SPEC_NODES\n";
  EXPECT_EQ(in_words(slurm_differences(parse_site(kSite, "s"), live)), "");
  replace(live.config, "lua,throttle", "stretto");
  EXPECT_EQ(in_words(slurm_differences(parse_site(kSite, "s"), live)), "") << "the C++ rule";
}

TEST(CheckSlurm, WhatClosesAPartitionIsADifference) {
  const Site site = parse_site(kSite, "s");
  const struct {
    const char *key, *found, *expected;
  } kCases[] = {
      {"RootOnly", "YES", "NO"},
      {"AllowAccounts", "nobody", "ALL"},
      {"AllowGroups", "nobody", "ALL"},
      {"AllowQos", "high", "ALL"},
      {"AllocNodes", "login0", "ALL"},
      {"DenyAccounts", "students", "none"},
      {"ReqResv", "YES", "NO"},
      {"MinNodes", "2", "0 or 1"},
      {"OverSubscribe", "EXCLUSIVE", "NO"},
  };
  for (const auto& each : kCases) {
    SlurmText live = text_of_site();
    replace(live.partitions, "State=UP", std::string(each.key) + "=" + each.found + " State=UP");
    EXPECT_EQ(in_words(slurm_differences(site, live)), std::string("partition normal.all|") +
                                                           each.key + "|" + each.expected + "|" +
                                                           each.found + "|1\n");
  }
}

TEST(CheckSlurm, SharesNeedTheDatabaseAndCountChips) {
  const Site site = parse_site(std::string(kSite) + "[[users]]\nname = \"eva\"\n", "s");
  SlurmText live = text_of_site();
  EXPECT_EQ(in_words(slurm_differences(site, live)),
            "slurm.conf|AccountingStorageType|accounting_storage/slurmdbd||0\n"
            "slurm.conf|AccountingStorageEnforce|limits||0\n"
            "slurm.conf|AccountingStorageTRES|gres/gpu||0\n"
            "slurm.conf|PriorityWeightFairShare|5000||0\n"
            "partition normal.all|TRESBillingWeights|CPU=0.001,gres/gpu=1||1\n");
  replace(live.config, "SelectType ",
          "AccountingStorageEnforce = associations,limits\n"
          "AccountingStorageTRES   = cpu,mem,energy,node,billing,gres/gpu\n"
          "AccountingStorageType   = accounting_storage/slurmdbd\n"
          "PriorityWeightFairShare = 5000\nSelectType ");
  replace(live.partitions, "State=UP", "State=UP TRESBillingWeights=GRES/gpu=1,CPU=0.001");
  EXPECT_EQ(in_words(slurm_differences(site, live)), "");
}

TEST(CheckSlurm, NoShareMakesUpForAQueue) {
  const auto weight = [](const std::string& queues) {
    return partition_weight(
        parse_site(std::string(kSite) + "[[users]]\nname = \"eva\"\n" + queues, "s"));
  };
  const auto queue = [](const char* name, int priority) {
    return fmt::format("[[queues]]\nname = \"{}\"\npriority = {}\n", name, priority);
  };
  EXPECT_EQ(weight(""), 10000);
  EXPECT_EQ(weight(queue("a", 10) + queue("b", 100)), 10000) << "9000 of it are between them";
  EXPECT_EQ(weight(queue("a", 10) + queue("b", 90) + queue("c", 100)), 50010) << "5001 are";
  EXPECT_EQ(weight(queue("a", 10) + queue("b", 10)), 10000) << "the share decides";
}

TEST(CheckSlurm, OneNameOfAnotherFormDoesNotHideTheOthers) {
  SlurmText live = text_of_site();
  live.partitions += "PartitionName=racks Nodes=rack[0-1]n[0-3],m0 State=UP\n";
  live.reservations = "ReservationName=gift Nodes=rack[0-1]n[0-3],m1 Flags=SPEC_NODES\n";
  EXPECT_EQ(in_words(slurm_differences(parse_site(kSite, "s"), live)),
            "partition racks|Nodes||m0|0\nreservation gift|Nodes||m1|0\n");
}

TEST(CheckSlurm, NamesOfPluginsMayHaveTheirKind) {
  SlurmText live = text_of_site();
  replace(live.config, "lua,throttle", "job_submit/lua");
  replace(live.config, "gpu,mps", "gres/gpu");
  EXPECT_EQ(in_words(slurm_differences(parse_site(kSite, "s"), live)), "");
}

TEST(CheckSlurm, NodesThatDifferInTheSameWayAreOneDifference) {
  SlurmText live = text_of_site();
  for (int i = 0; i < 2; ++i) replace(live.nodes, "Weight=10", "Weight=4");
  EXPECT_EQ(in_words(slurm_differences(parse_site(kSite, "s"), live)),
            "nodes m[0-1]|Weight|10|4|1\n");
}

TEST(CheckSlurm, WhatScontrolDidNotPrintIsRefused) {
  const Site site = parse_site(kSite, "s");
  for (const auto text :
       {&SlurmText::config, &SlurmText::nodes, &SlurmText::partitions, &SlurmText::reservations}) {
    SlurmText live = text_of_site();
    live.*text = "slurm_load: error\n";
    EXPECT_THROW(slurm_differences(site, live), FormatError);
    live.*text = "NodeName=\nPartitionName=\nReservationName=\n=\n = \n";
    EXPECT_THROW(slurm_differences(site, live), FormatError);
  }
}

TEST(Scontrol, CountsGresByNameAndType) {
  using Counts = std::map<std::string, int64_t>;
  EXPECT_EQ(gres_counts("gpu:v100:8(S:0-1),shard:16(0/1)"),
            (Counts{{"gpu:v100", 8}, {"shard", 16}}));
  EXPECT_EQ(gres_counts("gpu:v100:4(S:0),gpu:v100:4(S:1)"), (Counts{{"gpu:v100", 8}}));
  EXPECT_EQ(gres_counts("gpu:2,craynetwork"), (Counts{{"gpu", 2}, {"craynetwork", 1}}));
  EXPECT_EQ(gres_counts("npu:910:8"), (Counts{{"npu:910", 8}}));
  EXPECT_EQ(gres_counts("(null)"), Counts{});
  EXPECT_EQ(gres_counts(""), Counts{});
}

TEST(Scontrol, Times) {
  EXPECT_EQ(scontrol_time("UNLIMITED"), 0);
  EXPECT_EQ(scontrol_time("NONE"), 0);
  EXPECT_EQ(scontrol_time("00:10:00"), 600);
  EXPECT_EQ(scontrol_time("1-00:00:00"), 86400);
  EXPECT_EQ(scontrol_time("soon"), -1);
}

}  // namespace
}  // namespace stretto::cluster
