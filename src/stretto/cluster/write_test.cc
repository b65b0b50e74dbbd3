// What is written from a site that was made in code holds no more than its words. What is written
// from files is tested by tests/python/test_cluster_site.py.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/cluster/kubernetes/kubernetes.h"
#include "stretto/cluster/kubernetes/size_rule.h"
#include "stretto/cluster/kubernetes/yaml.h"
#include "stretto/cluster/slurm/partitions.h"
#include "stretto/cluster/slurm/slurm.h"

namespace stretto::cluster {
namespace {

const char* const kHostile[] = {"a\nPartitionName=evil",
                                "a b",
                                "$(id)",
                                "`id`",
                                "a;b",
                                "a'b",
                                "a\"b",
                                "a#b",
                                "a=b",
                                "a\\",
                                "a\0b",
                                "\xff"};

Site small_site() {
  return parse_site("[[nodes]]\nnames = \"m[0-3]\"\nchip = \"v100\"\nchips = 8\n", "site.toml");
}

TEST(WriteSite, RefusesHostileWordsForSlurm) {
  for (const char* word : kHostile) {
    if (std::string(word) == "a") continue;  // what is left of a\0b
    EXPECT_THROW(conf_word(word), InvalidArgument) << word;
    Site site = small_site();
    site.queues[0].name = word;
    EXPECT_THROW(write_slurm(site), InvalidArgument) << word;
    EXPECT_THROW(write_kubernetes(site), Unsupported) << word;
    site = small_site();
    site.chips["v100"].gres = word;
    EXPECT_THROW(write_slurm(site), InvalidArgument) << word;
    site = small_site();
    site.nodes[0].rack = word;
    EXPECT_THROW(write_slurm(site), InvalidArgument) << word;
  }
  EXPECT_THROW(conf_word(""), InvalidArgument);
  EXPECT_EQ(conf_word("m[0-3],r0"), "m[0-3],r0");
}

TEST(WriteSite, QuotesHostileWordsElsewhere) {
  EXPECT_EQ(lua_text("a\"\\\n\xff"), "\"a\\034\\092\\010\\255\"");
  EXPECT_EQ(shell_word("a'b\n"), "'a'\\''b\n'");
  EXPECT_EQ(shell_word("a.b=c"), "a.b=c");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(in_comment("a\nb\\\xff"), "a?b??");
}

TEST(WriteSite, YamlQuotesAllButPlainWords) {
  using Json = nlohmann::ordered_json;
  EXPECT_EQ(to_yaml({{"a", "b"}, {"c", 1}, {"d", true}}), "a: b\nc: 1\nd: true\n");
  for (const char* word :
       {"yes", "No",   "null", "TRUE", "on", "1", "-",   "a: b", "a #b", "*a", "&a",
        "!a",  "a\nb", "{a}",  "'a'",  "~",  "",  "0x1", ".inf", "a ",   "y"}) {
    EXPECT_EQ(to_yaml({{"a", word}}), "a: " + Json(word).dump() + "\n") << word;
  }
  EXPECT_EQ(to_yaml({{"a: b\n", "c"}}), "\"a: b\\n\": c\n");
  Json nested;
  nested["list"] = {{{"a", 1}, {"b", Json::array({"x", "y"})}}, {{"c", Json::object()}}};
  nested["none"] = Json::array();
  EXPECT_EQ(to_yaml(nested), "list:\n- a: 1\n  b:\n  - x\n  - \"y\"\n- c: {}\nnone: []\n");
  EXPECT_EQ(to_yaml({{"a", "\xff"}}), "a: \"\\ufffd\"\n");
}

TEST(WriteSite, NamesForKubernetes) {
  EXPECT_EQ(kubernetes_name("Big_Jobs"), "big-jobs");
  for (const char* wrong : {"a-", "a_", "-a", "a.b", "a b", ""}) {
    EXPECT_THROW(kubernetes_name(wrong), Unsupported) << wrong;
  }
}

TEST(WriteSite, TimesForSlurm) {
  EXPECT_EQ(conf_time(0), "UNLIMITED");
  EXPECT_EQ(conf_time(90061), "1-01:01:01");
}

TEST(WriteSite, OwnersHaveHigherTiersThanGuests) {
  const Site site = parse_site(
      "[[nodes]]\nnames = \"m[0-4]\"\nchip = \"v100\"\nchips = 8\n"
      "[[groups]]\nname = \"one\"\nnodes = \"m0\"\nchips = \"0-1\"\nspill = [\"more\"]\n"
      "[[groups]]\nname = \"more\"\nnodes = \"m[1-3]\"\nchips = \"2+\"\n"
      "[reserve]\nnodes = \"m4\"\nqueues = [\"top\"]\n"
      "[[queues]]\nname = \"top\"\npriority = 9\npreempts = true\n"
      "[[queues]]\nname = \"high\"\npriority = 8\npreempts = true\n"
      "[[queues]]\nname = \"low\"\ndefault = true\npriority = 2\n"
      "[[queues]]\nname = \"lowest\"\npriority = 1\n",
      "s");
  int homes = 0, spares = 0;
  for (const Partition& partition : partitions_of(site)) {
    const int tier = partition.spare             ? 1
                     : partition.queue == "top"  ? 30
                     : partition.queue == "high" ? 20
                                                 : 10;
    EXPECT_EQ(partition.tier, tier) << partition.name;
    EXPECT_EQ(partition.preemptible, partition.spare || partition.queue != "top");
    EXPECT_EQ(partition.is_default, partition.name == "low.one");
    (partition.spare ? spares : homes) += 1;
  }
  EXPECT_EQ(homes, 8);
  EXPECT_EQ(spares, 7);  // of all but top.more, whose group spills nowhere
}

TEST(WriteSite, TooFewDevicesForALoopbackClusterAreNamed) {
  SlurmTarget target{.first_port = 20000, .devices = {"/dev/a", "/dev/b"}};
  EXPECT_THROW(write_slurm(small_site(), target), Unsupported);
  EXPECT_THROW(write_slurm(small_site(), {.first_port = 65535, .devices = {}}), InvalidArgument);
  EXPECT_GE(character_devices().size(), 3u);
}

}  // namespace
}  // namespace stretto::cluster
