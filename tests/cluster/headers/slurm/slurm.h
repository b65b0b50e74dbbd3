/* As much of Slurm's interface as the plugin of submit rules uses, for machines without its
   headers: the names are Slurm's, the layout is not. */
#pragma once

#include <stdint.h>

#define SLURM_VERSION_NUMBER 0x160508
#define NO_VAL16 0xfffe
#define NO_VAL 0xfffffffe

typedef struct {
  char *partition, *tres_per_job, *tres_per_node, *tres_per_task, *tres_per_socket;
  uint32_t min_nodes, max_nodes, num_tasks, het_job_offset, user_id;
  uint16_t ntasks_per_node, ntasks_per_tres;
} job_desc_msg_t;
