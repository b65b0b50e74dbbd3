#include "stretto/cluster/trace/trace.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::cluster {
namespace {

// The error of a text, or "none".
std::string error_of(std::string_view text, const TraceOptions& options = {}) {
  try {
    parse_trace(text, "t.csv", options);
  } catch (const FormatError& e) {
    return e.what();
  } catch (const InvalidArgument& e) {
    return std::string("argument: ") + e.what();
  }
  return "none";
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Trace, OpenbHasPartsOfChipsKindsCoresAndMemory) {
  const Trace trace = parse_trace(
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
      "deletion_time,scheduled_time\n"
      "b,6000,12288,1,460,V100M16|T4,LS,Running,100,160,100\n"
      "a,12000,16384,2,1000,,BE,Running,40,50.5,40\r\n"
      "c,1000,1,0,0,,BE,Pending,100,,\n",
      "t.csv");
  EXPECT_EQ(trace.format, "openb");
  ASSERT_EQ(trace.jobs.size(), 3u);
  EXPECT_EQ(trace.jobs[0].submit_ms, 0) << "times begin with the first job";
  EXPECT_EQ(trace.jobs[0].chips, 2);
  EXPECT_EQ(trace.jobs[0].duration_ms, 10500);
  EXPECT_EQ(trace.jobs[1].submit_ms, 60000);
  EXPECT_EQ(trace.jobs[1].chip_milli, 460);
  EXPECT_EQ(trace.jobs[1].cores_milli, 6000);
  EXPECT_EQ(trace.jobs[1].memory_mb, 12288);
  EXPECT_EQ(trace.kind_sets[static_cast<size_t>(trace.jobs[1].kinds)],
            (std::vector<std::string>{"V100M16", "T4"}));
  EXPECT_EQ(trace.queues[static_cast<size_t>(trace.jobs[1].queue)], "LS");
  EXPECT_EQ(trace.jobs[2].chips, 0);
  EXPECT_EQ(trace.jobs[2].chip_milli, 1000);
}

TEST(Trace, PhillyTimesAreDates) {
  const Trace trace = parse_trace(
      "timestamp,duration,num_gpus,gpu_time,cluster\n"
      "2017-03-01 00:00:10,66.5,8,532,11cb48\n"
      "2017-02-28 23:59:50,2,1,2,6214e9\n",
      "t.csv");
  EXPECT_EQ(trace.format, "philly");
  EXPECT_EQ(trace.jobs[1].submit_ms, 20000);
  EXPECT_EQ(trace.jobs[1].duration_ms, 66500);
  EXPECT_EQ(trace.jobs[1].predicted_ms, 66500);
  EXPECT_EQ(trace.jobs[1].chips, 8);
}

TEST(Trace, ChronusDeadlinesCountFromTheSubmission) {
  const Trace trace = parse_trace(
      "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,"
      "expect_value_list,best_effort,job_type\n"
      "0,vc_a,1,100,5049,vgg16,747,14,1105,10,0,strict\n"
      "1,vc_b,2,160,5,alexnet,30,17,14341,10,1,best\n",
      "t.csv");
  EXPECT_EQ(trace.format, "chronus");
  EXPECT_EQ(trace.jobs[0].deadline_ms, 1105000);
  EXPECT_EQ(trace.jobs[1].deadline_ms, -1) << "best effort has none";
  EXPECT_EQ(trace.jobs[1].submit_ms, 60000);
  EXPECT_EQ(trace.users[static_cast<size_t>(trace.jobs[1].user)], "vc_b");
}

TEST(Trace, Tiresias) {
  const Trace trace = parse_trace(
      "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
      "0,4,0,606,vgg19,164,30\n",
      "t.csv");
  EXPECT_EQ(trace.format, "tiresias");
  EXPECT_EQ(trace.jobs[0].chips, 4);
  EXPECT_EQ(trace.models[static_cast<size_t>(trace.jobs[0].model)], "vgg19");
}

TEST(Trace, GavelStepsBecomeSecondsOnTheReferenceChip) {
  const char* text =
      "ResNet-18 (batch size 32)\tcd %s && python3 main.py\t--num_steps\t1\t1000\t6.5\t1\n"
      "ResNet-18 (batch size 32)\tcd %s && python3 main.py\t--num_steps\t1\t1000\t7\t8\n";
  Throughputs rates;
  rates.rates["v100"]["ResNet-18 (batch size 32)|1"] = 20;
  rates.rates["k80"]["ResNet-18 (batch size 32)|1"] = 2;
  const Trace trace = parse_trace(text, "t.trace", {.throughputs = &rates});
  EXPECT_EQ(trace.format, "gavel");
  EXPECT_EQ(trace.jobs[0].duration_ms, 50000);
  EXPECT_EQ(trace.jobs[1].duration_ms, 50000) << "not measured on 8: that on one";
  EXPECT_EQ(trace.jobs[1].submit_ms, 500);
  EXPECT_EQ(trace.jobs[1].chips, 8);
  EXPECT_EQ(
      parse_trace(text, "t", {.throughputs = &rates, .reference_kind = "k80"}).jobs[0].duration_ms,
      500000);
  EXPECT_TRUE(has(error_of(text), "pass --throughputs"));
  EXPECT_TRUE(has(error_of(text, {.throughputs = &rates, .reference_kind = "p4"}), "line 1"));
}

TEST(Trace, SacctHasLimitsPartitionsAndResources) {
  const Trace trace = parse_trace(
      "JobID|User|Partition|Submit|ElapsedRaw|TimelimitRaw|ReqTRES|AllocTRES\n"
      "7|ann|multi|2024-01-02T03:04:05|100|10|billing=8,cpu=8,gres/gpu=4,mem=64G,node=1|\n"
      "7.batch|||2024-01-02T03:04:05|100|||cpu=8\n"
      "8|bob|single|2024-01-02T03:05:05|50|UNLIMITED||cpu=2,gres/gpu:v100=1,gres/gpu=1,mem=512M\n"
      "9|bob|single|2024-01-02T03:05:06|0|5|cpu=1|\n"
      "10|bob|single|2024-01-02T03:05:07|9|5|cpu=1,gres/gpu:k40=2,gres/gpu:v100=1|\n",
      "t.txt");
  EXPECT_EQ(trace.format, "sacct");
  EXPECT_EQ(trace.jobs.back().chips, 3) << "a site may account for kinds alone";
  ASSERT_EQ(trace.jobs.size(), 3u) << "steps, and jobs that never ran, are no jobs";
  EXPECT_EQ(trace.jobs[0].chips, 4);
  EXPECT_EQ(trace.jobs[0].cores_milli, 8000);
  EXPECT_EQ(trace.jobs[0].memory_mb, 65536);
  EXPECT_EQ(trace.jobs[0].duration_ms, 100000);
  EXPECT_EQ(trace.jobs[0].predicted_ms, 600000);
  EXPECT_EQ(trace.jobs[1].submit_ms, 60000);
  EXPECT_EQ(trace.jobs[1].memory_mb, 512);
  EXPECT_EQ(trace.jobs[1].predicted_ms, 50000);
  EXPECT_EQ(trace.kind_sets[static_cast<size_t>(trace.jobs[1].kinds)],
            std::vector<std::string>{"v100"});
}

TEST(Trace, AmountsThatNoNumberHoldsAreRefused) {
  const std::string head = "JobID|Submit|ElapsedRaw|AllocTRES\n1|2024-01-02T03:04:05|9|";
  for (const char* text : {"gres/gpu=1e20", "gres/gpu:v100=99999999", "cpu=1e300", "mem=1e300P"}) {
    EXPECT_TRUE(has(error_of(head + text + "\n"), "line 2")) << text;
  }
  EXPECT_EQ(error_of(head + "cpu=4,mem=-5M,gres/gpu=-1\n"), "none");
  Throughputs rates;
  rates.rates["v100"]["a|1"] = 1e-300;
  EXPECT_TRUE(has(error_of("a\tb\tc\t1\t1000\t0\t1\n", {.throughputs = &rates}), "too long"));
}

TEST(Trace, ErrorsNameTheFileAndTheLine) {
  const std::string head = "timestamp,duration,num_gpus,gpu_time,cluster\n";
  const std::string good = "2017-03-01 00:00:10,66.5,8,532,11cb48\n";
  EXPECT_TRUE(has(error_of(head + good + "2017-03-01 00:00:10,66.5\n"), "t.csv"));
  EXPECT_TRUE(has(error_of(head + good + "2017-03-01 00:00:10,66.5\n"), "line 3"));
  for (const char* line : {"2017-03-01,1,1,1,a\n", "2017-13-01 00:00:10,1,1,1,a\n",
                           "2017-03-01 00:00:10,-1,1,1,a\n", "2017-03-01 00:00:10,x,1,1,a\n",
                           "2017-03-01 00:00:10,nan,1,1,a\n", "2017-03-01 00:00:10,1,0,1,a\n",
                           "2017-03-01 00:00:10,1,1.5,1,a\n", "2017-03-01 00:00:10,1e300,1,1,a\n",
                           "2017-03-01 00:00:10,1,99999999999,1,a\n", "a,b,c,d,e,f\n"}) {
    EXPECT_TRUE(has(error_of(head + line), "line 2")) << line << error_of(head + line);
  }
  EXPECT_TRUE(has(error_of(head), "no job"));
  EXPECT_TRUE(has(error_of(""), "line 1"));
  EXPECT_TRUE(has(error_of("what,is,this\n1,2,3\n"), "--trace-format"));
  EXPECT_TRUE(has(error_of(head + good, {.format = "philli"}), "argument"));
  EXPECT_TRUE(has(error_of(head + good, {.format = "tiresias"}), "num_gpu"));
}

TEST(Trace, EveryFormatIsFoundByItsFirstLineOnly) {
  const char* firsts[] = {
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli",
      "timestamp,duration,num_gpus,gpu_time,cluster",
      "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list",
      "job_id,num_gpu,submit_time,iterations,model_name,duration,interval",
      "a\tb\tc\td\te\tf\tg",
      "JobID|Submit|ElapsedRaw|AllocTRES",
  };
  ASSERT_EQ(std::size(firsts), trace_formats().size());
  for (size_t f = 0; f < std::size(firsts); ++f) {
    for (size_t i = 0; i < std::size(firsts); ++i) {
      EXPECT_EQ(trace_formats()[f].matches(firsts[i]), f == i) << f << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace stretto::cluster
