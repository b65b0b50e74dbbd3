// Draws what policies would do (docs/formats/simulation.md). Every part checks for its own fields and
// is left out when they are missing.

const runs = list(data.simulations).filter((run) => run && typeof run === 'object');
const fit = object(data.fit);
const palette = (index) => `--c${index % 8}`;

function label(run) {
  const sites = new Set(runs.map((r) => r.site));
  const policy = run.policy === 'site' ? 'as the site says' : run.policy;
  return sites.size > 1 ? `${run.site}: ${policy}` : policy;
}

// Long times in words: nobody reads 20000 s.
function duration(x) {
  if (!isNumber(x)) return '–';
  if (x < 0.5) return 'none';
  if (x < 120) return `${Math.round(x)} s`;
  if (x < 2 * 3600) return `${Math.round(x / 60)} min`;
  return x < 2 * 86400 ? `${digits(x / 3600)} h` : `${digits(x / 86400)} days`;
}

// Lines over time or over demand. series: {label, color, points: [{x, y}]}
function lines(series, {x, y, most} = {}) {
  const known = series.filter((s) => s.points.length > 1);
  if (!known.length) return null;
  const canvas = make('canvas', {role: 'img', 'aria-label': known.map((s) => s.label).join(', ')});
  const axis = (title) => ({
    type: 'linear', title: {display: true, text: title, color: color('--soft')},
    grid: {color: color('--line')}, ticks: {color: color('--soft')},
  });
  const draw = () => new Chart(canvas, {
    type: 'line',
    data: {datasets: known.map((s) => ({
      label: s.label, data: s.points, borderColor: color(s.color), backgroundColor: color(s.color),
      borderWidth: 1.8, pointRadius: 0, tension: 0,
    }))},
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
      interaction: {mode: 'nearest', axis: 'x', intersect: false},
      scales: {x: axis(x), y: {...axis(y), beginAtZero: true, suggestedMax: most}},
      plugins: {legend: {labels: {color: color('--ink'), boxWidth: 14}}},
    },
  });
  charts.push({draw, chart: null});
  return make('div', {class: 'plot', style: 'height:300px'}, canvas);
}

function overTime(field, scale) {
  const days = runs.some((run) => run.makespan_s > 4 * 86400);
  return [runs.map((run, index) => ({
    label: label(run), color: palette(index),
    points: list(run.series).map((p) => ({x: p.time_s / (days ? 86400 : 3600), y: scale * p[field]})),
  })), days ? 'days from the first job' : 'hours from the first job'];
}

// ---- the parts -------------------------------------------------------------------------------

function heading() {
  const sentences = [];
  const [first, ...others] = runs;
  const mean = (run) => object(run.wait).mean_s;
  const best = others.slice().sort((a, b) => mean(a) - mean(b))[0];
  if (first && isNumber(mean(first))) {
    sentences.push('On this site and these jobs, a job would wait ', make('b', {}, duration(mean(first))),
                   ' in the mean');
    if (best && isNumber(mean(best))) {
      sentences.push(`; with ${label(best)}, `, make('b', {}, duration(mean(best))));
    }
    sentences.push('.');
  }
  root.append(make('header', {},
    make('div', {class: 'brand'}, `Stretto ${data.stretto ?? ''} cluster simulation`),
    make('h1', {}, data.site ?? 'What a policy would do'),
    make('p', {class: 'note'}, `${digits(data.jobs, 7)} jobs of ${data.trace ?? 'a trace'}, replayed on ` +
      `${first ? `${first.nodes} nodes with ${first.chips} chips` : 'the site'}. Nothing was run: these ` +
      'are computed times.'),
    sentences.length ? make('p', {class: 'headline'}, sentences) : null));
}

function changeSection() {
  const sentences = list(fit.changes);
  section('What would change', `${list(fit.tried).length} of ${fit.grid_size} settings of the groups ` +
    `and the reserve were simulated, at the cost of ${digits(fit.runs)} whole simulations.`, sentences.length
    ? make('ul', {}, sentences.map((text) => make('li', {}, text))) : null);
}

function summarySection() {
  const column = (title, value, show, number = true) => ({title, value, show, number});
  section('In short', 'Allocation: how much of the chips was given to jobs. Useful: the same without ' +
    'work that preemption threw away. Stranded: chips that stood idle while jobs waited for chips.', table([
    column('Policy', label, null, false),
    column('Mean wait', (r) => object(r.wait).mean_s, (r) => duration(object(r.wait).mean_s)),
    column('Wait of the slowest 1 %', (r) => object(r.wait).p99_s, (r) => duration(object(r.wait).p99_s)),
    column('Mean time to the end', (r) => object(r.completion).mean_s,
           (r) => duration(object(r.completion).mean_s)),
    column('Allocation', (r) => r.allocation, (r) => percent(r.allocation)),
    column('Useful', (r) => r.utilisation, (r) => percent(r.utilisation)),
    column('Stranded', (r) => r.fragmentation, (r) => percent(r.fragmentation)),
    column('Preemptions', (r) => r.preemptions, null),
    column('Chip hours lost', (r) => r.lost_chip_hours, (r) => digits(r.lost_chip_hours)),
    column('Missed deadlines', (r) => r.missed_deadlines,
           (r) => (r.with_deadline ? `${r.missed_deadlines} of ${r.with_deadline}` : '–')),
    column('Refused', (r) => r.refused, null),
  ].map((c) => (c.show ? c : {...c, show: undefined})), runs));
}

function waitSection() {
  const classes = [...new Set(runs.flatMap((run) => list(run.waits).map((w) => w.class)))];
  const of = (run, name) => object(list(run.waits).find((w) => w.class === name));
  const largest = Math.max(0, ...runs.flatMap((run) => list(run.waits).map((w) => w.mean_s)));
  const [unit, scale] = largest > 7200 ? ['h', 3600] : largest > 120 ? ['min', 60] : ['s', 1];
  const rows = runs.flatMap((run) => list(run.waits).map((w) => ({...w, policy: label(run)})));
  section('How long jobs wait', 'By the number of chips that they ask for; urgent jobs apart. The wait ' +
    'is the time from submission to the first start.',
    bars(classes, runs.map((run, index) => ({
      label: label(run), color: () => palette(index),
      values: classes.map((name) => (of(run, name).mean_s ?? 0) / scale),
    })), {unit}),
    table([
      {title: 'Jobs', value: (w) => w.class},
      {title: 'Policy', value: (w) => w.policy},
      {title: 'Number', number: true, value: (w) => w.jobs},
      {title: 'Mean', number: true, value: (w) => w.mean_s, show: (w) => duration(w.mean_s)},
      {title: 'Half wait at most', number: true, value: (w) => w.p50_s, show: (w) => duration(w.p50_s)},
      {title: '95 %', number: true, value: (w) => w.p95_s, show: (w) => duration(w.p95_s)},
      {title: '99 %', number: true, value: (w) => w.p99_s, show: (w) => duration(w.p99_s)},
      {title: 'Longest', number: true, value: (w) => w.longest_s, show: (w) => duration(w.longest_s)},
    ], rows));
}

function timeSections() {
  const [allocated, x] = overTime('allocated', 100);
  section('How full the site is', 'Chips that jobs have, in percent of all.',
          lines(allocated, {x, y: '% of the chips', most: 100}));
  const [stranded] = overTime('stranded', 100);
  section('Chips that stood idle while jobs waited', 'Free chips that no waiting job could use, or was ' +
          'allowed to use: the price of fragments, walls between groups, and reserves.',
          lines(stranded, {x, y: '% of the chips'}));
  const [waiting] = overTime('waiting', 1);
  section('How many jobs wait', null, lines(waiting, {x, y: 'jobs'}));
}

function arrivalSection() {
  section('How full the site gets', 'Jobs come one after the other, never end, and are refused unless ' +
    'they start at once.', lines(runs.map((run, index) => ({
    label: label(run), color: palette(index),
    points: list(run.arrivals).map((p) => ({x: p.demand_percent, y: p.allocated_percent})),
  })), {x: 'demand, % of the chips', y: '% of the chips in use', most: 100}));
}

function noteSection() {
  const notes = [...list(data.notes), ...new Set(runs.flatMap((run) => list(run.refused_because)))];
  section('Read this too', null,
          notes.length ? make('ul', {}, notes.map((text) => make('li', {}, text))) : null);
}

heading();
if (Object.keys(fit).length) changeSection();
summarySection();
waitSection();
timeSections();
arrivalSection();
noteSection();
root.append(make('footer', {}, 'Plots by Chart.js (MIT licence). This page needs no network.'));
drawCharts();
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawCharts);
