// Written by `stretto cluster compile` from examples/cluster/three_kinds.toml.
//
// The rule of job_submit.lua as a plugin of slurmctld, for sites that want no Lua in it. It decides
// the same. A plugin fits one version of Slurm, so build it again after each upgrade, where Slurm's
// headers are (Debian: libslurm-dev):
//
//   g++ -std=c++17 -O2 -fPIC -shared -o job_submit_stretto.so job_submit_stretto.cpp
//
// Put it into Slurm's PluginDir, and let slurm.conf have JobSubmitPlugins=stretto in place of lua.
// slurmctld calls it while it holds its locks: nothing here waits or reads files, but for the name
// of a user where a queue is for some users only.
#include <pwd.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

extern "C" {
struct job_record;  // of slurmctld itself: never looked into
// Texts of a job belong to Slurm's allocator. slurmctld has these.
char* slurm_xstrdup(const char*);
void slurm_xfree(void**);

extern const char plugin_name[];
extern const char plugin_type[];
extern const uint32_t plugin_version;
const char plugin_name[] = "A job's queue and number of chips name its partitions";
const char plugin_type[] = "job_submit/stretto";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;
int init(void) { return SLURM_SUCCESS; }
int fini(void) { return SLURM_SUCCESS; }
int job_submit(job_desc_msg_t* job, uint32_t uid, char** problem);
int job_modify(job_desc_msg_t* job, struct job_record* record, uint32_t uid, char** problem);
}

namespace {

using Words = std::vector<std::string>;

struct Kind {
  std::string chip, gres, type;
};

struct Group {
  std::string name;
  double least, most;  // chips of a job; most < 0: no limit
};

struct Queue {
  std::string name;
  bool is_default;
  Words users, groups;  // empty: all
  double max_chips;     // 0: no limit
};

struct Room {
  double all, node;  // chips of a kind on all nodes, and on the largest one
};

struct Partition {
  std::string name, queue, group;
  bool spare;
  double nodes;
  std::map<std::string, Room> room;
};

struct Site {
  double max_chips, max_nodes;  // 0: no limit
  std::vector<Kind> kinds;
  std::vector<Group> groups;
  std::vector<Queue> queues;
  std::vector<Partition> partitions;
};

// A pointer, so that nothing runs when slurmctld unloads the plugin.
const Site& site() {
  static const Site* const all = new Site{
      0, 0,
      {
          {"k40", "gpu", "k40"},
          {"v100", "gpu", "v100"},
      },
      {
          {"single", 1, 1},
          {"multi", 2, -1},
      },
      {
          {"urgent", false, {}, {}, 0},
          {"normal", true, {}, {}, 0},
      },
      {
          {"urgent.single", "urgent", "single", false, 3, {{"k40", {8, 4}}, {"v100", {8, 8}}}},
          {"urgent.single.spare", "urgent", "single", true, 2, {{"v100", {16, 8}}}},
          {"urgent.multi", "urgent", "multi", false, 3, {{"v100", {24, 8}}}},
          {"normal.single", "normal", "single", false, 2, {{"k40", {8, 4}}}},
          {"normal.single.spare", "normal", "single", true, 3, {{"v100", {24, 8}}}},
          {"normal.multi", "normal", "multi", false, 2, {{"v100", {16, 8}}}},
          {"normal.multi.spare", "normal", "multi", true, 1, {{"v100", {8, 8}}}},
      },
  };
  return *all;
}

// As Lua writes numbers.
std::string text_of(double number) {
  char text[32];
  snprintf(text, sizeof text, "%.14g", number);
  return text;
}

// "m" or "m, n and o"
std::string enumerate(const Words& words) {
  if (words.empty()) return "none";
  std::string out = words[0];
  for (size_t i = 1; i < words.size(); ++i) {
    out += (i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return out;
}

bool contains(const Words& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

template <typename T>
const T* find(const std::vector<T>& list, const std::string& name) {
  for (const T& each : list) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

// Words between commas that are not empty.
Words split(const char* text) {
  Words words;
  std::string word;
  for (const char* at = text ? text : "";; ++at) {
    if (*at != ',' && *at != 0) {
      word += *at;
      continue;
    }
    if (!word.empty()) words.push_back(word);
    word.clear();
    if (*at == 0) return words;
  }
}

bool said(uint32_t value) { return value != 0 && value != NO_VAL && value != NO_VAL16; }
bool said(const char* text) { return text && *text; }

std::string sizes(const Group& group) {
  if (group.most < 0) return text_of(group.least) + "+";
  if (group.most == group.least) return text_of(group.least);
  return text_of(group.least) + "-" + text_of(group.most);
}

using Chips = std::map<std::string, double>;  // by kind; "" are those of any kind

// Adds what "gres:gpu:v100:2,gpu:1" asks for, `times` over. Other resources than the site's chips
// are not counted. Returns a problem, or nothing.
std::string add_chips(Chips& wanted, const char* text, double times) {
  for (std::string item : split(text)) {
    if (item.rfind("gres:", 0) == 0 || item.rfind("gres/", 0) == 0) item.erase(0, 5);
    double count = 1;
    const size_t last = item.find_last_not_of("0123456789");
    if (last != item.npos && last + 1 < item.size() && (item[last] == ':' || item[last] == '=')) {
      count = 0;
      for (size_t i = last + 1; i < item.size(); ++i) count = count * 10 + (item[i] - '0');
      item.erase(last);
    }
    const std::string gres = item.substr(0, item.find(':'));
    const std::string type = gres.size() < item.size() ? item.substr(gres.size() + 1) : "";
    bool known = false;
    std::string chip;
    Words types;
    for (const Kind& each : site().kinds) {
      if (each.gres != gres) continue;
      known = true;
      types.push_back(each.type.empty() ? each.chip : each.type);
      if (!type.empty() && each.type == type) chip = each.chip;
    }
    if (!known) continue;
    if (!type.empty() && chip.empty()) {
      return "this site has no " + gres + " of type '" + type + "'; it has " + enumerate(types);
    }
    wanted[chip] += count * times;
  }
  return "";
}

struct Request {
  Chips wanted, per_node;
  double chips = 0, most = 0, nodes = 1;  // most: of one node
};

std::string read_request(const job_desc_msg_t& job, Request& request) {
  if (said(job.min_nodes)) request.nodes = job.min_nodes;
  std::string problem = add_chips(request.per_node, job.tres_per_node, 1);
  if (problem.empty() && said(job.tres_per_job)) {
    problem = add_chips(request.wanted, job.tres_per_job, 1);
  } else if (problem.empty() && said(job.tres_per_node)) {
    problem = add_chips(request.wanted, job.tres_per_node, request.nodes);
  } else if (problem.empty()) {
    const double on_node = said(job.ntasks_per_node) ? job.ntasks_per_node : 1;
    const double tasks = said(job.num_tasks) ? job.num_tasks : request.nodes * on_node;
    problem = add_chips(request.wanted, job.tres_per_task, tasks);
    // --ntasks-per-gpu without chips: Slurm gives the job as many as its tasks need.
    if (problem.empty() && request.wanted.empty() && said(job.ntasks_per_tres)) {
      problem = add_chips(request.wanted, "gpu", std::ceil(tasks / job.ntasks_per_tres));
    }
  }
  Chips per_socket;  // how many sockets they are is the machine's affair
  if (problem.empty()) problem = add_chips(per_socket, job.tres_per_socket, 1);
  if (problem.empty() && !per_socket.empty()) {
    problem = "chips per socket are not counted: ask for them per node, per task or per job";
  }
  for (const auto& each : request.wanted) request.chips += each.second;
  for (const auto& each : request.per_node) request.most += each.second;
  return problem;
}

// Why `partition` can never run the job; empty if it can.
std::string misfit(const Partition& partition, const Request& job) {
  double all = 0, node = 0;
  for (const auto& each : partition.room) {
    all += each.second.all;
    node = std::max(node, each.second.node);
  }
  for (const auto& each : job.wanted) {
    const std::string& kind = each.first;
    if (kind.empty()) continue;
    const auto at = partition.room.find(kind);
    const Room room = at == partition.room.end() ? Room{0, 0} : at->second;
    if (room.all == 0) return "its nodes have no " + kind;
    if (each.second > room.all) {
      return "its nodes have " + text_of(room.all) + " chips of kind " + kind +
             ", the job asks for " + text_of(each.second);
    }
    const auto asked = job.per_node.find(kind);
    if (asked != job.per_node.end() && asked->second > room.node) {
      return "a node has at most " + text_of(room.node) + " chips of kind " + kind +
             ", the job asks for " + text_of(asked->second) + " per node";
    }
  }
  if (job.chips > all) {
    return "its nodes have " + text_of(all) + " chips, the job asks for " + text_of(job.chips);
  }
  if (job.most > node) {
    return "a node has at most " + text_of(node) + " chips, the job asks for " + text_of(job.most) +
           " per node";
  }
  if (job.nodes > partition.nodes) {
    return "it has " + text_of(partition.nodes) + " nodes, the job asks for " + text_of(job.nodes);
  }
  return "";
}

// The queue that a job names, be it by the name of one of the queue's partitions. `foreign`: it
// names a partition that is none of this site file's.
const Queue* queue_of(const job_desc_msg_t& job, bool& foreign) {
  foreign = false;
  if (!said(job.partition)) {
    for (const Queue& queue : site().queues) {
      if (queue.is_default) return &queue;
    }
    return nullptr;
  }
  const Queue* found = nullptr;
  for (const std::string& word : split(job.partition)) {
    const Partition* partition = find(site().partitions, word);
    const Queue* queue = find(site().queues, partition ? partition->queue : word);
    if (!queue) {
      foreign = true;
      return nullptr;
    }
    if (found && found != queue) return nullptr;
    found = queue;
  }
  return found;
}

std::string user_name(uint32_t uid) {
  std::vector<char> room(16384);
  passwd entry{};
  passwd* found = nullptr;
  const int code = getpwuid_r(uid, &entry, room.data(), room.size(), &found);
  return code == 0 && found ? found->pw_name : std::to_string(uid);
}

// The group for a job of so many chips; null, with the problem, if there is none.
const Group* group_of(const Queue& queue, double chips, const std::string& ask,
                      std::string& problem) {
  const Group* group = nullptr;
  Words all;
  for (const Group& each : site().groups) {
    if (chips >= each.least && (each.most < 0 || chips <= each.most)) group = &each;
    all.push_back("'" + each.name + "' (" + sizes(each) + ")");
  }
  if (!group) {
    problem = "no group takes jobs of " + ask + "; groups and their sizes are " + enumerate(all);
    return nullptr;
  }
  if (queue.groups.empty() || contains(queue.groups, group->name)) return group;
  problem = "a job of " + ask + " belongs to group '" + group->name + "', where queue '" +
            queue.name + "' has no jobs";
  return nullptr;
}

// Limits of the site and of the queue.
std::string too_large(const Queue& queue, const Request& asked, const std::string& ask) {
  const double most = site().max_chips, nodes = site().max_nodes;
  if (most > 0 && asked.chips > most) {
    return "a job may have " + text_of(most) + " chips at most, this one asks for " + ask;
  }
  if (queue.max_chips > 0 && asked.chips > queue.max_chips) {
    return "queue '" + queue.name + "' has " + text_of(queue.max_chips) +
           " chips at most, this job asks for " + ask;
  }
  if (nodes > 0 && asked.nodes > nodes) {
    return "a job may have " + text_of(nodes) + " nodes at most, this one asks for " +
           text_of(asked.nodes);
  }
  return "";
}

// Returns a problem, or nothing and the job's partitions; none of these: it keeps what it names.
std::string route(const job_desc_msg_t& job, Words& partitions) {
  bool foreign = false;
  const Queue* queue = queue_of(job, foreign);
  if (foreign) return "";  // Slurm knows whether it exists
  if (!queue) {
    Words names;
    for (const Queue& each : site().queues) names.push_back("'" + each.name + "'");
    return "a job belongs to one queue; there are " + enumerate(names);
  }
  if (!queue->users.empty()) {
    const std::string user = user_name(job.user_id);
    if (!contains(queue->users, user)) {
      return "queue '" + queue->name + "' is for " + enumerate(queue->users) + ", not for " + user;
    }
  }
  Request asked;
  std::string problem = read_request(job, asked);
  if (!problem.empty()) return problem;
  const std::string ask = text_of(asked.chips) + (asked.chips == 1 ? " chip" : " chips");
  problem = too_large(*queue, asked, ask);
  if (!problem.empty()) return problem;

  // A heterogeneous job comes here part by part, and the rule of sizes is about whole jobs: a part
  // may go wherever it fits.
  const bool part = said(job.het_job_offset) || job.het_job_offset == 0;
  const Group* group = part ? nullptr : group_of(*queue, asked.chips, ask, problem);
  if (!problem.empty()) return problem;
  Words fitting;
  for (const Partition& each : site().partitions) {
    if (each.queue != queue->name || (part ? each.spare : each.group != group->name)) continue;
    const std::string why = misfit(each, asked);
    if (why.empty()) fitting.push_back(each.name);
    if (problem.empty()) problem = why;  // the first one
  }
  if (fitting.empty() && part) {
    return "no group of queue '" + queue->name + "' can run this part: " + problem;
  }
  if (fitting.empty()) {
    return "a job of " + ask + " belongs to group '" + group->name + "': " + problem;
  }
  bool by_name = false;  // a choice among those that fit
  for (const std::string& word : split(job.partition)) {
    if (word == queue->name) continue;
    by_name = true;
    if (!contains(fitting, word)) {
      return "a job of " + ask + " may not run in partition '" + word + "': its partitions are " +
             enumerate(fitting) + "; leave -p out, or name the queue alone";
    }
  }
  if (!by_name) partitions = fitting;
  return "";
}

}  // namespace

// No exception may leave these: the caller is written in C.
extern "C" int job_submit(job_desc_msg_t* job, uint32_t, char** problem) {
  try {
    Words partitions;
    const std::string why = route(*job, partitions);
    if (!why.empty()) {
      *problem = slurm_xstrdup(why.c_str());
      return SLURM_ERROR;
    }
    if (partitions.empty()) return SLURM_SUCCESS;
    std::string list;
    for (const std::string& name : partitions) list += (list.empty() ? "" : ",") + name;
    slurm_xfree(reinterpret_cast<void**>(&job->partition));
    job->partition = slurm_xstrdup(list.c_str());
    return SLURM_SUCCESS;
  } catch (...) {
    return SLURM_ERROR;
  }
}

// What a job asks for and where it runs belong together, so users cannot change them afterwards,
// nor what chips are counted by.
extern "C" int job_modify(job_desc_msg_t* job, struct job_record*, uint32_t uid, char** problem) {
  if (uid == 0) return SLURM_SUCCESS;
  if (!said(job->partition) && !said(job->tres_per_job) && !said(job->tres_per_node) &&
      !said(job->tres_per_task) && !said(job->tres_per_socket) && !said(job->min_nodes) &&
      !said(job->max_nodes) && !said(job->num_tasks) && !said(job->ntasks_per_node) &&
      !said(job->ntasks_per_tres)) {
    return SLURM_SUCCESS;
  }
  *problem =
      slurm_xstrdup("a job's partitions follow from its chips: cancel it and submit it again");
  return SLURM_ERROR;
}
