"""From a script to a running job: `stretto cluster up | run | ls | logs | ssh | upload | download |
stop | down`. A scheduler keeps the jobs; this package writes what it is given, and shows what it
says. docs/howto/cluster.md is for users, docs/design/cluster.md for whoever changes it."""
