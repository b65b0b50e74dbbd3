#include "stretto/cluster/simulate/user_shares.h"

#include <algorithm>

#include "stretto/cluster/slurm/accounting.h"

namespace stretto::cluster {

int64_t cost_of(const Need& need) { return need.chip_milli() + need.cores_milli / 1000; }

UserShares::UserShares(const Site& site, const Trace& trace)
    : counts_users_(!site.users.empty()), users_(trace.users.size()), queues_(site.queues.size()) {
  for (const User& user : site.users) {
    const auto at = std::ranges::find(trace.users, user.name);
    if (at == trace.users.end()) continue;
    Account& account = users_[static_cast<size_t>(at - trace.users.begin())];
    account.share = fairshare_of(user);
    account.most_milli = int64_t{user.most_chips} * 1000;
  }
  for (size_t q = 0; q < site.queues.size(); ++q) {
    queues_[q].most_milli = int64_t{site.queues[q].most_chips} * 1000;
  }
}

void UserShares::count(Account& account, int64_t now_ms) {
  while (account.counted_ms < now_ms) {
    if (account.used < kShareDecay && account.rate == 0) {
      account.counted_ms = now_ms;  // too little to be forgotten in parts
      return;
    }
    const int64_t period_end = (account.counted_ms / kSharePeriod_ms + 1) * kSharePeriod_ms;
    const int64_t until = std::min(now_ms, period_end);
    account.used += account.rate * (until - account.counted_ms);
    account.counted_ms = until;
    if (until == period_end) account.used -= account.used / kShareDecay;
  }
}

double UserShares::used(int user, int64_t now_ms) {
  if (!counts_users_) return 0;
  Account& account = users_[static_cast<size_t>(user)];
  count(account, now_ms);
  return static_cast<double>(account.used) / static_cast<double>(account.share);
}

bool UserShares::allows(const Shape& shape) const {
  const auto within = [&](const Account& account) {
    return account.most_milli == 0 ||
           account.running_milli + shape.need.chip_milli() <= account.most_milli;
  };
  return within(queues_[static_cast<size_t>(shape.queue)]) &&
         within(users_[static_cast<size_t>(shape.user)]);
}

void UserShares::change(const Shape& shape, int64_t now_ms, int sign) {
  const int64_t milli = sign * shape.need.chip_milli();
  queues_[static_cast<size_t>(shape.queue)].running_milli += milli;
  if (!counts_users_) return;
  Account& account = users_[static_cast<size_t>(shape.user)];
  count(account, now_ms);
  account.running_milli += milli;
  account.rate += sign * cost_of(shape.need);
}

}  // namespace stretto::cluster
