/* See slurm.h beside this. */
#pragma once

#define SLURM_SUCCESS 0
#define SLURM_ERROR -1
