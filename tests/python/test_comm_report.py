"""The page that `stretto run --report` writes."""

import html.parser

from stretto import _comm_report as comm_report


def test_report_shows_streams_and_nan():
  stream = {"name": "tcp <eth0>", "sent_bytes": 3_000_000, "received_bytes": 5, "alive": False,
            "used": False, "reason": "closed <by> the other side"}
  spare = {"name": "tcp <eth1>", "sent_bytes": 50, "received_bytes": 50, "alive": True,
           "used": False, "reason": ""}
  rank = {"rank": 1, "statistics": {"operations": 7, "payload_bytes": 10, "sum_s": 0.5,
                                    "resent_chunks": 2,
                                    "links": [{"rank": 0, "host": "h", "streams": [stream, spare],
                                               "no_rdma": "m0:1 is <not> active"}]},
          "non_finite": [{"name": "fc.weight at step 3", "count": 4, "sequence": 9, "more": 41}],
          "trace": []}
  text = comm_report.page("train.py <x>", [rank])
  assert "tcp &lt;eth0&gt;" in text and "3 MB" in text and "lost" in text
  assert "tcp &lt;eth1&gt; (in reserve)" in text
  assert "closed &lt;by&gt; the other side" in text and "m0:1 is &lt;not&gt; active" in text
  assert "The first 1 of 42 reports." in text
  assert "fc.weight at step 3" in text and "train.py &lt;x&gt;" in text


def test_report_shows_steps_settings_segments_and_a_timeline():
  group = {"group": "world", "model": "5 operations, 97.5 MiB, 0f", "steps": 10, "seconds": 2.0,
           "bytes": 10**9, "busy_s": 1.0, "exposed_s": 0.25, "step_s": 0.2, "recalled": False,
           "settled": True, "setting": "unit=1048576 streams=4 algorithm=<direct>",
           "tried": [{"setting": "unit=1048576 streams=4 algorithm=direct", "seconds": 0.1,
                      "against_seconds": 0.25, "won": True}]}
  events = [{"ph": "X", "tid": 2000, "cat": "wire", "name": "all_reduce <b>", "ts": 1e6 + i * 1e3,
             "dur": 900.0} for i in range(5)]
  ranks = [{"rank": rank, "statistics": {"operations": 7, "payload_bytes": 10, "sum_s": 0.5,
                                         "resent_chunks": 0, "links": [], "tuning": [group]},
            "segments": [{"parts": 4, "step_s": 0.2, "expected_tail_s": 0.01, "chosen": True},
                         {"plan": "DistributedDataParallel(model, bucket_cap_mb=4)"}],
            "shares": [{"batch": 0, "shares": [224, 32], "speeds": [4390.0, 620.0],
                        "reason": "measured <speeds>"},
                       {"batch": 40, "shares": [200, 56], "speeds": [], "reason": "drift"}],
            "non_finite": [], "trace": events} for rank in range(2)]
  text = comm_report.page("train.py", ranks)
  page = Page()
  page.feed(text)
  page.close()
  assert page.open == [], "every element is closed"
  rows = [" | ".join(row) for row in page.rows]
  step = "0 | world | 5 operations, 97.5 MiB, 0f | 10 | 200 ms | 100 MB | 100 ms | 25 ms | 75%"
  assert step in rows
  assert "unit=1048576 streams=4 algorithm=direct | 100 ms | 250 ms | 2.50x | won" in rows
  assert "4 | 200 ms | 10 ms | chosen" in rows
  assert "0 | 224, 32 | 4390, 620 | measured <speeds>" in rows
  assert "40 | 200, 56 | - | drift" in rows
  assert "algorithm=<direct>" in page.text and "bucket_cap_mb=4" in page.text
  assert page.tags.count("rect") == 2 * len(events)
  assert not {"script", "link", "img"} & set(page.tags), "the page needs nothing else"


class Page(html.parser.HTMLParser):
  """Elements, text and table rows of a page."""

  def __init__(self):
    super().__init__()
    self.open, self.tags, self.rows, self.text = [], [], [], ""

  def handle_starttag(self, tag, attributes):
    self.tags.append(tag)
    if tag != "meta":
      self.open.append(tag)
    if tag == "tr":
      self.rows.append([])
    if tag in ("td", "th"):
      self.rows[-1].append("")

  def handle_endtag(self, tag):
    assert self.open and self.open[-1] == tag, (tag, self.open)
    self.open.pop()

  def handle_data(self, data):
    self.text += data
    if self.open and ("td" in self.open or "th" in self.open):
      self.rows[-1][-1] += data
