// The functions behind the rows of policy_parts(): a file each.
#pragma once

namespace stretto::cluster {

struct Policy;

void use_fifo(Policy& policy);
void use_easy(Policy& policy);
void use_greedy(Policy& policy);
void use_shortest(Policy& policy);
void use_best_fit(Policy& policy);
void use_spread(Policy& policy);
void use_random(Policy& policy);
void use_fgd(Policy& policy);
void use_throughput(Policy& policy);
void use_no_groups(Policy& policy);
void use_hard_groups(Policy& policy);
void use_soft_groups(Policy& policy);
void use_no_reserve(Policy& policy);
void use_held_reserve(Policy& policy);
void use_lent_reserve(Policy& policy);
void use_preempt(Policy& policy);
void use_no_preempt(Policy& policy);

}  // namespace stretto::cluster
