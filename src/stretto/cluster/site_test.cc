#include "stretto/cluster/site.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "stretto/base/error.h"
#include "stretto/cluster/site_keys.h"
#include "stretto/cluster/site_toml.h"

namespace stretto::cluster {
namespace {

const std::string kNodes = "[[nodes]]\nnames = \"m[0-3]\"\nchip = \"v100\"\nchips = 8\n";

std::string problem_of(const std::string& text) {
  try {
    parse_site(text, "site.toml");
  } catch (const FormatError& e) {
    return e.what();
  }
  return "none";
}

TEST(Site, HasADefaultForAllButItsNodes) {
  const Site site = parse_site(kNodes, "a/site.toml");
  EXPECT_EQ(site.name, "site");
  EXPECT_EQ(site.file, "a/site.toml");
  ASSERT_EQ(site.nodes.size(), 1u);
  EXPECT_EQ(site.nodes[0].names, (std::vector<std::string>{"m0", "m1", "m2", "m3"}));
  EXPECT_EQ(site.nodes[0].cores, 1);
  EXPECT_EQ(site.nodes[0].memory_mb, 0);
  EXPECT_EQ(site.nodes[0].build, "v100");
  EXPECT_EQ(site.nodes[0].rack + site.nodes[0].address, "");
  EXPECT_EQ(site.nodes[0].line, 1);
  const ChipKind& chip = site.chips.at("v100");
  EXPECT_EQ(chip.gres, "gpu:v100");
  EXPECT_EQ(chip.devices, "/dev/nvidia[0-7]");
  EXPECT_EQ(chip.resource, "nvidia.com/gpu");
  ASSERT_EQ(site.groups.size(), 1u);
  EXPECT_EQ(site.groups[0].name, "all");
  EXPECT_EQ(site.groups[0].nodes, site.nodes[0].names);
  EXPECT_EQ(site.groups[0].least_chips, 0);
  EXPECT_EQ(site.groups[0].most_chips, 0);
  EXPECT_EQ(site.reserve.line, 0);
  EXPECT_EQ(site.preemption.mode, Preemption::kRequeue);
  EXPECT_EQ(site.preemption.grace_s, 60);
  ASSERT_EQ(site.queues.size(), 1u);
  EXPECT_EQ(site.queues[0].name, "normal");
  EXPECT_EQ(site.queues[0].priority, 10);
  EXPECT_TRUE(site.queues[0].is_default);
  EXPECT_FALSE(site.queues[0].preempts);
  EXPECT_TRUE(site.users.empty());
  EXPECT_EQ(site.limits.longest_s, 0);
  EXPECT_EQ(site.limits.default_s, 3600);
  EXPECT_EQ(site.limits.most_chips, 0);
  EXPECT_EQ(site.limits.most_nodes, 0);
}

TEST(Site, NamesChipsByTheirKind) {
  const Site site = parse_site(
      "[chips.ascend910]\ngres = \"npu:910\"\nresource = \"huawei.com/Ascend910\"\n"
      "[[nodes]]\nnames = \"a\"\nchip = \"ascend910\"\nchips = 8\n"
      "[[nodes]]\nnames = \"k\"\nchip = \"k40\"\nchips = 1\n[[nodes]]\nnames = \"c\"\n",
      "s");
  EXPECT_EQ(site.chips.at("ascend910").devices, "");
  EXPECT_EQ(site.chips.at("ascend910").gres, "npu:910");
  EXPECT_EQ(site.chips.at("ascend910").line, 1);
  EXPECT_EQ(site.chips.at("k40").devices, "/dev/nvidia0");
  EXPECT_EQ(site.chips.at("k40").line, 8);
  EXPECT_EQ(site.nodes[2].build, "cpu");
}

TEST(Site, SortsQueuesAndTakesTheFirstInTheFileAsDefault) {
  const Site site = parse_site(kNodes +
                                   "[[queues]]\nname = \"low\"\npriority = 1\n"
                                   "[[queues]]\nname = \"high\"\npriority = 5\n",
                               "s");
  EXPECT_EQ(site.queues[0].name, "high");
  EXPECT_TRUE(site.queues[1].is_default);
}

TEST(Site, LendsItsReserveIfItCanPreempt) {
  const std::string reserve = "[reserve]\nnodes = \"m3\"\nqueues = [\"normal\"]\n";
  EXPECT_TRUE(parse_site(kNodes + reserve, "s").reserve.lend);
  EXPECT_FALSE(parse_site(kNodes + reserve + "lend = false\n", "s").reserve.lend);
  EXPECT_FALSE(parse_site(kNodes + reserve + "[preemption]\nmode = \"off\"\n", "s").reserve.lend);
  EXPECT_EQ(parse_site(kNodes + reserve, "s").groups[0].nodes.size(), 3u);
}

TEST(Site, FindsTheGroupOfASize) {
  const Site site =
      parse_site(kNodes +
                     "[[groups]]\nname = \"one\"\nnodes = \"m0\"\nchips = \"1\"\n"
                     "[[groups]]\nname = \"some\"\nnodes = \"m1\"\nchips = \"2-7\"\n"
                     "[[groups]]\nname = \"many\"\nnodes = \"m[2-3]\"\nchips = \"9+\"\n",
                 "s");
  EXPECT_EQ(group_of(site, 0), nullptr);
  EXPECT_EQ(group_of(site, 1)->name, "one");
  EXPECT_EQ(group_of(site, 7)->name, "some");
  EXPECT_EQ(group_of(site, 8), nullptr);
  EXPECT_EQ(group_of(site, 1000)->name, "many");
  const Site unlike = parse_site(
      kNodes +
          "[[nodes]]\nnames = \"c\"\n[[groups]]\nname = \"none\"\nnodes = \"c\"\nchips = \"0\"\n"
          "[[groups]]\nname = \"some\"\nnodes = \"m[0-3]\"\nchips = \"1+\"\n",
      "s");
  EXPECT_EQ(group_of(unlike, 0)->name, "none");
  EXPECT_EQ(group_of(unlike, 1)->name, "some");
  EXPECT_TRUE(unlike.groups[0].chipless);
  EXPECT_EQ(nodes_of(site, "m2").chips, 8);
  EXPECT_THROW(nodes_of(site, "m4"), InvalidArgument);
}

TEST(Site, ReadsTimes) {
  EXPECT_EQ(parse_time("90m"), 5400);
  EXPECT_EQ(parse_time("45s"), 45);
  EXPECT_EQ(parse_time("2d"), 172800);
  EXPECT_EQ(parse_time("1:30:00"), 5400);
  EXPECT_EQ(parse_time("2-12"), 216000);
  EXPECT_EQ(parse_time("2-00:30"), 174600);
  EXPECT_EQ(parse_time("1-00:00:01"), 86401);
  for (const char* wrong : {"", "10", "10:00", "-1h", "1h30m", "1-", "1:2:", "2-24", "0:60:00", "h",
                            "12345678h", "1-00:00:00:00", "1-2-3", "1x"}) {
    EXPECT_EQ(parse_time(wrong), -1) << wrong;
  }
}

struct Case {
  std::string text, problem;
};

std::string with(const std::string& rest) { return kNodes + rest; }

TEST(Site, SaysWhatIsWrongWhereAndHowToCorrectIt) {
  const std::string groups = "[[groups]]\nname = \"a\"\nnodes = \"m[0-1]\"\nchips = \"1\"\n";
  const std::string more = "[[groups]]\nname = \"b\"\nnodes = \"m[2-3]\"\nchips = \"2+\"\n";
  const Case cases[] = {
      {"", "site.toml:1: a site needs nodes"},
      {"[[nodes]\n", "site.toml:1: "},
      {"a = \n", "site.toml:1: "},
      {with("name = 1"),
       "site.toml:5: [[nodes]] has no key 'name', did you mean names?; there are"},
      {"nam = \"x\"\n" + kNodes, "site.toml:1: the top of the file has no key 'nam', did you mean"},
      {with("[queue]\n"),
       "site.toml:5: the top of the file has no key 'queue', did you mean queues?"},
      {"[[nodes]]\nchips = 8\n", "site.toml:1: [[nodes]] needs names"},
      {"[nodes]\nnames = \"a\"\n", "site.toml:1: nodes: expected tables [[nodes]]"},
      {"nodes = [1]\n", "site.toml:1: nodes: expected tables [[nodes]]"},
      {"limits = 1\n" + kNodes, "site.toml:1: limits: expected a table [limits]"},
      {"[[nodes]]\nnames = 3\n",
       "site.toml:2: [[nodes]] names: expected names of nodes such as m[0-3]"
       ",r0, got a whole number"},
      {"[[nodes]]\nnames = \"a b\"\n", "'a b': it may not contain ' '"},
      {"[[nodes]]\nnames = \"\"\n", "'': it is empty"},
      {"[[nodes]]\nnames = \"-a\"\n", "it may not begin with '-'"},
      {"[[nodes]]\nnames = \"a[3-1]\"\n", "site.toml:1: [[nodes]] names: 'a[3-1]' is no list"},
      {"[[nodes]]\nnames = \"a,a\"\n", "site.toml:1: [[nodes]] names: a is named twice"},
      {"[[nodes]]\nnames = \"a\"\n[[nodes]]\nnames = \"a\"\n",
       "site.toml:3: [[nodes]]: node a is in line 1 already"},
      {"[[nodes]]\nnames = \"n[1-999999]\"\n[[nodes]]\nnames = \"m[1-9]\"\n",
       "site.toml:3: [[nodes]]: more than 1,000,000 nodes"},
      {"[[nodes]]\nnames = \"a\"\nchips = 2\n",
       "site.toml:1: [[nodes]]: 2 chips per node, but not"},
      {"[[nodes]]\nnames = \"a\"\nchip = \"k40\"\n", "add chips = N"},
      {"[[nodes]]\nnames = \"a\"\ncores = 0\n",
       "site.toml:3: [[nodes]] cores: expected a whole number "
       "from 1 to 65536, got 0"},
      {"[[nodes]]\nnames = \"a\"\ncores = 1.5\n", "expected a whole number, got a number with a"},
      {"[[nodes]]\nnames = \"a\"\nmemory_gb = nan\n", "memory_gb: expected a number from 0"},
      {"[[nodes]]\nnames = \"a[1-3]\"\naddress = \"10.0.0.1\"\n", "1 addresses for 3 names"},
      {with("[chips.v10]\n"),
       "site.toml:5: [chips.v10]: no nodes have such chips, did you mean v100?"},
      {with("[chips.v100]\ngres = \"gpu:\"\n"), "site.toml:6: [chips.KIND] gres: expected"},
      {with("[chips.v100]\ndevices = \"\"\n"), "Slurm needs devices"},
      {with("[chips.v100]\ndevices = \"/dev/x[0-3]\"\n"), "4 device files for nodes of 8 chips"},
      {with("[chips.v100]\nresource = \"gpu\"\n"), "expected a resource such as nvidia.com/gpu"},
      {with("[[nodes]]\nnames = \"a\"\nchip = \"a\"\nchips = 1\n[chips.a]\ngres = \"gpu:v100\"\n"),
       "chips a are gpu:v100 for Slurm too"},
      {with("[chips.\"a b\"]\n"), "'a b' is no name of a kind"},
      {with("[[groups]]\nnodes = \"m0\"\n"), "site.toml:5: [[groups]] needs name"},
      {with("[[groups]]\nname = \"a\"\n"), "site.toml:5: [[groups]] needs nodes"},
      {with("[[groups]]\nname = \"a\"\nnodes = \"\"\n"), "it is empty"},
      {with("[[groups]]\nname = \"all\"\nnodes = \"m0\"\n"), "Slurm means something else"},
      {with("[[groups]]\nname = \"a.b\"\nnodes = \"m0\"\n"), "it may not contain '.'"},
      {with("[[groups]]\nname = \"a\"\nnodes = \"m5\"\n"), "[[nodes]] has no m5, did you mean m0?"},
      {with("[[groups]]\nname = \"a\"\nnodes = \"m0\"\nchips = \"8-2\"\n"),
       "site.toml:8: [[groups]] chips"},
      {with("[[groups]]\nname = \"a\"\nnodes = \"m[0-3]\"\nchips = \"0\"\n"),
       "for jobs without chips only, but its nodes have 32"},
      {with("[[groups]]\nname = \"a\"\nnodes = \"m[0-3]\"\nchips = \"33+\"\n"), "no job fits"},
      {with(groups), "node m2 is in no group and not in the reserve"},
      {with(groups + groups), "[[groups]] a: line 5 has this name already"},
      {with(groups + "[[groups]]\nname = \"b\"\nnodes = \"m[1-3]\"\nchips = \"2+\"\n"),
       "site.toml:9: [[groups]] b: [[groups]] a has node m1 already"},
      {with(groups + "[[groups]]\nname = \"b\"\nnodes = \"m[2-3]\"\nchips = \"1+\"\n"),
       "site.toml:9: [[groups]] a and b: both claim jobs of 1 chips"},
      {with(groups + "spill = [\"c\"]\n" + more), "spill: there is no group c, did you mean a?"},
      {with(groups + "spill = [\"a\"]\n" + more), "a group cannot spill into itself"},
      {with(groups + "spill = [\"b\"]\n" + more + "spill = [\"a\"]\n"),
       "preempt each other for ever"},
      {with(groups + "spill = [\"b\", \"b\"]\n" + more), "b is named twice"},
      {with("[reserve]\nnodes = \"m0\"\n"), "site.toml:5: [reserve] needs queues"},
      {with("[reserve]\nnodes = \"m0\"\nqueues = []\n"), "[reserve] queues: expected"},
      {with("[reserve]\nnodes = \"m[0-3]\"\nqueues = [\"normal\"]\n"), "all nodes are reserved"},
      {with("[reserve]\nnodes = \"m[0-9]\"\nqueues = [\"normal\"]\n"),
       "[reserve]: [[nodes]] has no m4"},
      {with("[reserve]\nnodes = \"m0\"\nqueues = [\"norml\"]\n"),
       "there is no queue norml, did you mean"},
      {with(groups + "[reserve]\nnodes = \"m1\"\nqueues = [\"normal\"]\n"),
       "node m1 is in [[groups]] a too"},
      {with("[reserve]\nnodes = \"m0\"\nqueues = [\"normal\"]\nlend = true\n[preemption]\nmode = "
            "\"off\"\n"),
       "site.toml:5: [reserve]: lend needs preemption"},
      {with("[reserve]\nnodes = \"m0\"\nqueues = [\"normal\"]\nlend = 1\n"),
       "expected true or false"},
      {with("[preemption]\nmode = \"requeu\"\n"),
       "expected off, requeue, cancel, got 'requeu', did you"},
      {with("[preemption]\ngrace_s = -1\n"), "expected a whole number from 0 to 86400, got -1"},
      {with("[[queues]]\nname = \"a\"\n[[queues]]\nname = \"a\"\n"),
       "line 5 has this name already"},
      {with("[[queues]]\nname = \"a\"\npreempts = true\n[preemption]\nmode = \"off\"\n"),
       "site.toml:5: [[queues]] a: it preempts, but"},
      {with("[[queues]]\nname = \"a\"\ndefault = true\n[[queues]]\nname = \"b\"\ndefault = true\n"),
       "site.toml:8: [[queues]] b: a is the default already (line 5)"},
      {with("[[queues]]\nname = \"a\"\ngroups = [\"al\"]\n"),
       "there is no group al, did you mean all?"},
      {with("[[queues]]\nname = \"a\"\nusers = \"eva\"\n"),
       "expected a list of users' names, got a text"},
      {with("[[queues]]\nname = \"a\"\nusers = [\"$(id)\"]\n"), "it may not begin with '$'"},
      {with("[[queues]]\nname = \"a\"\nmax_time = \"10\"\n"), "expected a time such as 90m"},
      {with("[[queues]]\nname = \"a\"\nmax_time = \"2h\"\n[limits]\nmax_time = \"1h\"\n"),
       "its max_time is more than that of [limits]"},
      {with("[[users]]\nname = \"eva\"\n[[users]]\nname = \"eva\"\n"),
       "line 5 has this name already"},
      {with("[[users]]\nname = \"eva\"\nshare = 0\n"),
       "share: expected a number from 0.001 to 1000"},
      {with("[limits]\nmax_time = \"1h\"\ndefault_time = \"2h\"\n"),
       "default_time is more than max_time"},
      {with("[limits]\nmax_time = \"0h\"\n"), "[limits] max_time: expected a time"},
  };
  for (const Case& each : cases) {
    EXPECT_NE(problem_of(each.text).find(each.problem), std::string::npos)
        << each.text << "\nexpected " << each.problem << "\ngot      " << problem_of(each.text);
  }
  EXPECT_EQ(problem_of(with(groups + "spill = [\"b\"]\n" + more +
                            "spill = [\"a\"]\n"
                            "[preemption]\nmode = \"off\"\n")),
            "none");
}

TEST(Site, TakesOtherCharactersThanAsciiInCommentsOnly) {
  const std::string node = "\n[[nodes]]\nnames = \"n\"\n";
  for (const char* good :
       {"# \xc3\xa9\n", "name = \"a\" # \xc3\xa9", "name = 'a' # '\xe6\xbc\xa2",
        "\xef\xbb\xbf# x\n", "name = \"\"\"a\"\"\" # \xc3\xa9\n", "name = '''a''' # \xc3\xa9\n"}) {
    EXPECT_EQ(parse_site(good + node, "s").nodes.size(), 1u) << good;
  }
  for (const char* bad :
       {"\xc3\xa9 = 1", "name = \xcb\x86", "name = \"\xc3\xa9\"", "name = '\xc3\xa9'",
        "\"\xc3\xa9\" = 1", "name = \"\"\"a#\xc3\xa9\"\"\"", "name = '''\n# \xc3\xa9'''",
        "name = \"\"\"a\\\n \xc3\xa9\"\"\"", "name = \"\\\"# \xc3\xa9\"",
        "name = '''a'''''\xc3\xa9", "name = \"a\\\\\"\xc3\xa9", "\xef\xbb\xbf\xef\xbb\xbf"}) {
    try {
      parse_site(bad + node, "s");
      ADD_FAILURE() << bad;
    } catch (const FormatError& e) {
      EXPECT_NE(std::string(e.what()).find("is not ASCII"), std::string::npos) << bad << e.what();
    }
  }
}

TEST(Site, ShortensTheDefaultTimeToTheLongest) {
  EXPECT_EQ(parse_site(kNodes + "[limits]\nmax_time = \"10m\"\n", "s").limits.default_s, 600);
}

TEST(Site, NamesAFileThatCannotBeRead) {
  EXPECT_THROW(read_site("/nowhere/site.toml"), FormatError);
}

TEST(SiteNames, ExpandAndCompactAreInverse) {
  for (const char* list :
       {"m[0-3,7],r0", "n[08-11]", "a", "x[1-2]y", "n[9-11]", "m1,m01", "gpu-a[0-1]-ib"}) {
    EXPECT_EQ(expand_names(compact_names(expand_names(list))), [&] {
      auto names = expand_names(list);
      return names;
    }()) << list;
  }
  EXPECT_EQ(compact_names({"m3", "r0", "m0", "m1", "m7", "m2"}), "m[0-3,7],r0");
  EXPECT_EQ(compact_names({"n10", "n11", "n08", "n09"}), "n[08-11]");
  EXPECT_EQ(compact_names({"n9", "n10", "n9"}), "n[9-10]");
  EXPECT_EQ(compact_names({}), "");
  EXPECT_EQ(expand_names("n[08-11]"), (std::vector<std::string>{"n08", "n09", "n10", "n11"}));
}

TEST(SiteNames, RefusesWhatIsNoList) {
  for (const char* wrong :
       {"", "a,", ",a", "a[", "a]", "a[1", "a]1[", "a[1][2]", "a[]", "a[x]", "a[1-]", "a[-1]",
        "a[2-1]", "a[1-2000000]", "a[0-999999],b", "a[99999999999999999999]"}) {
    EXPECT_THROW(expand_names(wrong), InvalidArgument) << wrong;
  }
  EXPECT_EQ(expand_names("a[0-999999]").size(), 1'000'000u);
}

TEST(SiteKeys, TheSchemaHasEveryKeyAndItsDefaultsFitTheirPatterns) {
  const auto schema = site_schema();
  for (const Key& key : keys()) {
    const std::string table(key.table);
    const auto& properties = schema["properties"];
    const auto& object = table.empty()           ? schema
                         : table == "chips.KIND" ? properties["chips"]["patternProperties"].front()
                         : properties[table].contains("items") ? properties[table]["items"]
                                                               : properties[table];
    const auto& property = object["properties"][std::string(key.name)];
    EXPECT_EQ(property["description"], key.meaning);
    EXPECT_NE(key.rules.required + !key.fallback.empty() + !key.otherwise.empty(), 0) << key.name;
    if (!property.contains("pattern") || !property.contains("default")) continue;
    const std::regex pattern(property["pattern"].get<std::string>());
    EXPECT_TRUE(std::regex_match(property["default"].get<std::string>(), pattern)) << key.name;
  }
  EXPECT_NE(site_reference().find("| `names` |"), std::string::npos);
}

}  // namespace
}  // namespace stretto::cluster
