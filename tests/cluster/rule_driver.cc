// Asks the plugin of submit rules about the requests on standard input, a line for each: what is
// asked (submit or modify), the caller's uid, and the job's fields with tabs between; \1 is a field
// that is not there. Prints its partition, or "!" and the problem.
#include <pwd.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
struct job_record;
int job_submit(job_desc_msg_t* job, uint32_t uid, char** problem);
int job_modify(job_desc_msg_t* job, struct job_record* record, uint32_t uid, char** problem);

// What slurmctld has.
char* slurm_xstrdup(const char* text) { return text ? strdup(text) : nullptr; }
void slurm_xfree(void** memory) {
  free(*memory);
  *memory = nullptr;
}

// In place of that of the C library: users that the sites of the tests name.
int getpwuid_r(uid_t uid, passwd* entry, char*, size_t, passwd** found) {
  static char names[][8] = {"root", "eva", "tom", "zoe"};
  *found = nullptr;
  if (uid >= 4) return 0;
  entry->pw_name = names[uid];
  *found = entry;
  return 0;
}
}

namespace {

char* text_or_null(const std::string& text) {
  return text == "\1" ? nullptr : slurm_xstrdup(text.c_str());
}

uint32_t number_or(const std::string& text, uint32_t otherwise) {
  return text == "\1" ? otherwise : static_cast<uint32_t>(std::stoul(text));
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    std::istringstream rest(line);
    for (std::string word; std::getline(rest, word, '\t');) words.push_back(word);
    job_desc_msg_t job;
    memset(&job, 0, sizeof job);
    const uint32_t uid = number_or(words.at(1), 0);
    job.user_id = uid;
    job.partition = text_or_null(words.at(2));
    job.tres_per_job = text_or_null(words.at(3));
    job.tres_per_node = text_or_null(words.at(4));
    job.tres_per_task = text_or_null(words.at(5));
    job.min_nodes = number_or(words.at(6), NO_VAL);
    job.num_tasks = number_or(words.at(7), NO_VAL);
    job.ntasks_per_node = static_cast<uint16_t>(number_or(words.at(8), NO_VAL16));
    job.het_job_offset = number_or(words.at(9), NO_VAL);
    job.tres_per_socket = text_or_null(words.at(10));
    job.max_nodes = number_or(words.at(11), NO_VAL);
    job.ntasks_per_tres = static_cast<uint16_t>(number_or(words.at(12), NO_VAL16));
    char* problem = nullptr;
    const int code = words[0] == "submit" ? job_submit(&job, uid, &problem)
                                          : job_modify(&job, nullptr, uid, &problem);
    if (code == SLURM_SUCCESS) {
      std::cout << (job.partition ? job.partition : "\1") << '\n';
    } else {
      std::cout << '!' << (problem ? problem : "no reason") << '\n';
    }
    for (char* text : {job.partition, job.tres_per_job, job.tres_per_node, job.tres_per_task,
                       job.tres_per_socket}) {
      free(text);
    }
    free(problem);
  }
}
