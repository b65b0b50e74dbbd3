// Draws the report (docs/formats/report.md). Every part checks for its own fields and is left out
// when they are missing.

// ---- the parts -------------------------------------------------------------------------------

const model = object(data.model), machine = object(data.machine), options = object(data.options);
const latency = object(data.latency), memory = object(data.memory);
const after = object(latency.after), before = object(latency.before);
const timedPeers = list(latency.peers).filter((p) => isNumber(p.median_ms));
const operators = list(data.operators);

function heading() {
  const parts = [];
  if (isNumber(before.median_ms) && isNumber(after.median_ms)) {
    parts.push(make('b', {}, faster(before.median_ms / after.median_ms)),
               ' than Stretto before it optimised the model');
  }
  const best = timedPeers.slice().sort((a, b) => a.median_ms - b.median_ms)[0];
  if (best && isNumber(after.median_ms)) {
    const ratio = best.median_ms / after.median_ms;
    parts.push(parts.length ? ', ' : '',
               make('b', {}, faster(ratio)),
               ` than ${best.name}, the fastest other engine here`);
  }
  root.append(make('header', {},
    make('div', {class: 'brand'}, `Stretto ${data.stretto ?? ''} report`),
    make('h1', {}, model.name ?? 'Model'),
    parts.length ? make('p', {class: 'headline'}, parts, '.') : null));
}

function cards() {
  const worst = list(data.errors).reduce((a, b) => (a === null || b.relative_to_max > a.relative_to_max
                                                      ? b : a), null);
  const inSeconds = isNumber(after.median_ms) ? 1e3 / after.median_ms : undefined;
  const all = [
    ['Median latency', after.median_ms, ms(after.median_ms),
     isNumber(before.median_ms) && `before: ${ms(before.median_ms)}`],
    ['95th percentile', after.p95_ms, ms(after.p95_ms), after.runs && `of ${after.runs} runs`],
    ['Throughput', inSeconds, `${digits(inSeconds)} /s`,
     options.threads && `${options.threads} thread${options.threads === 1 ? '' : 's'}, one at a time`],
    ['Computation', model.flops && after.median_ms,
     `${digits(model.flops / after.median_ms / 1e6)} GFLOP/s`, model.flops &&
     `${digits(model.flops / 1e9)} GFLOP of the plain algorithm`],
    isNumber(memory.serving_peak_bytes)
      ? ['Memory to serve', memory.serving_peak_bytes, bytes(memory.serving_peak_bytes),
         memory.weight_bytes && `weights ${bytes(memory.weight_bytes)}`]
      : ['Memory to optimise', memory.peak_bytes, bytes(memory.peak_bytes),
         memory.weight_bytes && `weights ${bytes(memory.weight_bytes)}`],
    ['Error', worst && worst.relative_to_max, scientific(worst && worst.relative_to_max),
     worst && isNumber(worst.bound) && `allowed ${scientific(worst.bound)} of the largest value`],
  ].filter(([, raw]) => isNumber(raw));
  if (!all.length) return;
  root.append(make('div', {class: 'cards'}, all.map(([name, , value, detail]) => {
    const [figure, ...unit] = value.split(' ');
    return make('div', {class: 'card'}, make('div', {class: 'name'}, name),
                make('div', {class: 'value'}, figure, ' ', make('small', {}, unit.join(' '))),
                detail ? make('div', {class: 'detail'}, detail) : null);
  })));
}

function latencySection() {
  const rows = [];
  if (isNumber(after.median_ms)) {
    rows.push({...after, name: 'Stretto', version: data.stretto, self: true,
               peak_bytes: memory.serving_peak_bytes});
  }
  for (const peer of list(latency.peers)) rows.push(peer);
  if (isNumber(before.median_ms)) {
    rows.push({...before, name: 'Stretto, before', setting: 'no passes, kernels in built-in order',
               before: true});
  }
  if (!rows.length) return;
  const timed = rows.filter((r) => isNumber(r.median_ms));
  const shade = (i) => (timed[i].self ? '--accent' : timed[i].before ? '--before' : '--c1');
  section('Latency', 'Time of one inference; lower is better.' + (timedPeers.length
    ? ' Engines took turns on the same inputs with the same number of threads. Memory is the peak of a ' +
      'process that loads and runs the model, Python included.' : ''),
    timed.length > 1 && bars(timed.map((r) => r.name),
                             [{label: 'median', values: timed.map((r) => r.median_ms), color: shade}]),
    table([
      {title: 'Name', value: (r) => r.name},
      {title: 'Median', number: true, value: (r) => r.median_ms, show: (r) => ms(r.median_ms)},
      {title: '95 %', number: true, value: (r) => r.p95_ms, show: (r) => ms(r.p95_ms)},
      {title: 'Throughput', number: true, value: (r) => r.median_ms && 1e3 / r.median_ms,
       show: (r) => (isNumber(r.median_ms) ? `${digits(1e3 / r.median_ms)} /s` : '–')},
      {title: 'Stretto is', number: true, value: (r) => r.median_ms / after.median_ms,
       show: (r) => (r.self ? '' : faster(r.median_ms / after.median_ms))},
      {title: 'Memory', number: true, value: (r) => r.peak_bytes, show: (r) => bytes(r.peak_bytes)},
      {title: 'Error', number: true, value: (r) => r.relative_to_max,
       show: (r) => scientific(r.relative_to_max)},
      {title: 'Version and setting', value: (r) => [r.version, r.setting, r.error].join(' '),
       show: (r) => (r.error ? make('span', {class: 'bad', title: list(r.last_words).join('\n')},
                                    r.error)
                             : [r.version, r.setting].filter(Boolean).join(', '))},
    ], rows, {rowClass: (r) => (r.self ? 'self' : undefined)}));
}

function totals(rows) {
  const byOp = new Map();
  for (const row of rows) {
    if (isNumber(row.ms)) byOp.set(row.op, (byOp.get(row.op) || 0) + row.ms);
  }
  return byOp;
}

function operatorTotals() {
  const now = totals(operators), then = totals(list(data.operators_before));
  const names = [...new Set([...then.keys(), ...now.keys()])];
  names.sort((a, b) => Math.max(then.get(b) || 0, now.get(b) || 0) -
                       Math.max(then.get(a) || 0, now.get(a) || 0));
  if (!names.length) return;
  const series = [];
  if (then.size) {
    series.push({label: 'before', values: names.map((n) => then.get(n) || 0), color: () => '--before'});
  }
  if (now.size) {
    series.push({label: 'after', values: names.map((n) => now.get(n) || 0), color: () => '--accent'});
  }
  section('Time by operator', then.size && now.size
    ? 'An operator without an "after" bar was fused into another.' : null,
    bars(names.slice(0, 20), series));
}

function share(fraction) {
  if (!isNumber(fraction)) return '–';
  const fill = make('i');
  fill.style.width = `${Math.min(100, 100 * fraction)}%`;
  return [percent(fraction), make('span', {class: 'bar'}, fill)];
}

// The end of a long path-like name, from a slash on.
function tail(name, most = 40) {
  if (name.length <= most) return name;
  const cut = name.indexOf('/', name.length - most);
  return `…${name.slice(cut < 0 ? name.length - most : cut)}`;
}

function choice(row) {
  const others = list(row.alternatives).filter((a) => a.kernel !== row.kernel);
  const why = row.why ?? '';
  if (!others.length) return why || '–';
  return make('details', {}, make('summary', {}, why || `${others.length} others`),
    make('ul', {}, others.map((a) => make('li', {}, make('span', {class: 'code'}, a.kernel), ': ',
      isNumber(a.ms) ? ms(a.ms) : make('span', {class: 'muted'}, a.reason ?? 'not measured')))));
}

function preprocessSection() {
  const pre = object(data.preprocess);
  if (!pre.steps) return;
  section('Preprocessing', 'What makes pictures the tensor that the model computes with. Other times here ' +
          'begin with that tensor.',
    facts([['Steps', pre.steps], ['Input', pre.input],
           ['Makes', `${pre.dtype ?? ''} ${shape(pre.shape)}`],
           ['Time of a picture', isNumber(pre.ms) ? `${ms(pre.ms)} of ${shape(pre.picture)} pixels on one core`
                                                  : undefined]]));
}

function operatorSection() {
  if (!operators.length) return;
  const total = sum(operators.map((o) => (isNumber(o.ms) ? o.ms : 0)));
  const families = [...new Set(operators.map((o) => o.family || o.op))];
  const shade = (o) => `--c${Math.min(7, families.indexOf(o.family || o.op))}`;
  const slowest = operators.filter((o) => isNumber(o.ms)).sort((a, b) => b.ms - a.ms).slice(0, 20);
  section('Operators after optimisation',
    `${operators.length} steps${total > 0 ? `, ${digits(total)} ms together` : ''}; the plot has the ` +
    `${slowest.length} slowest. A fraction of peak above 100 % means that the kernel does less ` +
    'arithmetic than the plain algorithm (Winograd).',
    bars(slowest.map((o) => tail(o.node ?? o.op ?? '')),
         [{label: 'time', values: slowest.map((o) => o.ms), color: (i) => shade(slowest[i])}]),
    table([
      {title: 'Node and problem', code: true, value: (o) => [o.node, o.problem].join(' '),
       show: (o) => [make('div', {}, o.node ?? '–'),
                     make('div', {class: 'muted small'}, o.problem ?? '')]},
      {title: 'Operator', value: (o) => o.op},
      {title: 'Kernel', code: true, value: (o) => o.kernel},
      {title: 'Time', number: true, value: (o) => o.ms, show: (o) => ms(o.ms)},
      {title: 'Share', number: true, value: (o) => o.ms, show: (o) => percent(o.ms / total)},
      {title: 'GFLOP/s', number: true, value: (o) => o.gflops,
       show: (o) => (o.gflops > 0 ? digits(o.gflops) : '–')},
      {title: 'Of peak', number: true, value: (o) => o.fraction_of_peak,
       show: (o) => (o.gflops > 0 ? share(o.fraction_of_peak) : '–')},
      {title: 'Chosen because', value: (o) => o.why, show: choice},
    ], operators, {search: true}));
}

function errorSection() {
  const rows = list(data.errors);
  section('Error against the reference',
    'The largest difference from a double-precision run of the original model, relative to the output\'s ' +
    'largest value.',
    table([
      {title: 'Output', code: true, value: (e) => e.output},
      {title: 'Relative error', number: true, value: (e) => e.relative_to_max,
       show: (e) => scientific(e.relative_to_max)},
      {title: 'Allowed', number: true, value: (e) => e.bound, show: (e) => scientific(e.bound)},
      {title: 'Used', number: true, value: (e) => e.relative_to_max / e.bound,
       show: (e) => share(e.relative_to_max / e.bound)},
      {title: 'Absolute error', number: true, value: (e) => e.max_abs, show: (e) => scientific(e.max_abs)},
    ], rows));
}

function passSection() {
  const fired = list(data.passes);
  if (!fired.length) return;
  const counts = new Map();
  for (const f of fired) counts.set(f.pass, (counts.get(f.pass) || 0) + 1);
  const names = [...counts.keys()];
  section('Rewrites', `${fired.length} rewrites` + (isNumber(model.nodes_before) &&
    isNumber(model.nodes_after) ? `: ${model.nodes_before} nodes became ${model.nodes_after}.` : '.'),
    bars(names, [{label: 'rewrites', values: names.map((n) => counts.get(n)), color: () => '--c1'}],
         {unit: 'rewrites'}),
    table([
      {title: 'Pass', value: (f) => f.pass},
      {title: 'Rule', code: true, value: (f) => f.rule},
      {title: 'Node', code: true, value: (f) => f.node},
    ], fired, {search: true}));
}

function noteSection() {
  const remark = (work, what) => object(work).remark && `${object(work).remark} while ${what}; times are noisy`;
  const notes = [...list(data.notes), remark(machine.other_work, 'this was optimised'),
                 remark(latency.other_work, 'engines were compared')].filter(Boolean);
  section('Notes', null, notes.length ? make('ul', {}, notes.map((note) => make('li', {}, note))) : []);
}

function howSection() {
  const spent = object(data.seconds), tuning = object(data.tuning);
  const stages = ['import', 'passes', 'tuning', 'verify', 'profile'].filter((s) => isNumber(spent[s]));
  const where = [make('h2', {}, 'Machine and options'), facts([
    ['Processor', machine.cpu], ['Instruction set', machine.isa], ['Cores', machine.cores],
    ['Peak per core', isNumber(machine.peak_gflops_per_core) &&
      `${digits(machine.peak_gflops_per_core)} GFLOP/s fp32`],
    ['Caches', [machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes].filter((b) => b > 0)
      .map(bytes).join(', ')],
    ['System', machine.os], ['Stretto', data.stretto], ['Model file', model.file],
    ['Level', options.level], ['Accuracy', options.accuracy], ['Threads', options.threads],
    ['Passes off', list(options.disable).join(', ')],
  ].map(([n, v]) => [n, v === false ? undefined : v]))];
  const how = [make('h2', {}, 'How it was made'), facts([
    ['Tuning', /^[0-9.]+$/.test(tuning.mode) ? `${tuning.mode} s` : tuning.mode], ['Kernels measured', tuning.measured],
    ['Taken from the tuning cache', tuning.from_tuning_cache], ['Taken in built-in order', tuning.from_default],
    ['Compared as a whole', isNumber((tuning.compared || {}).ratio) &&
      `tuned ${digits(tuning.compared.tuned_ms)} ms, built-in order ${digits(tuning.compared.default_ms)} ms; ` +
      `kept: ${tuning.compared.kept === 'tuned' ? 'tuned' : 'built-in order'}` +
      (tuning.compared.remembered ? ', as the tuning cache remembers' : '')],
    ['Time in all', isNumber(spent.total) ? seconds(spent.total) : undefined],
    ['Weights', bytes(memory.weight_bytes)], ['Memory of a session', bytes(memory.memory_bytes)],
  ]), stages.length ? bars(stages, [{label: 'time', values: stages.map((s) => spent[s]),
                                     color: () => '--c1'}], {unit: 's'}) : null];
  const parts = [where, how].filter(([, ...content]) => content.some(Boolean));
  if (!parts.length) return;
  root.append(make('section', {}, make('div', {class: 'pair'},
                                       parts.map((part) => make('div', {}, part)))));
}

function inputSection() {
  const sources = new Map(list(data.inputs).map((i) => [i.name, i]));
  const source = (i) => {
    const from = sources.get(i.name);
    if (!from) return '–';
    if (from.source === 'user') return 'yours';
    return `${from.source}${isNumber(from.seed) ? ` (seed ${from.seed})` : ''}`;
  };
  const rows = [...list(model.inputs).map((t) => ({...t, kind: 'input'})),
                ...list(model.outputs).map((t) => ({...t, kind: 'output'}))];
  const madeUp = list(data.inputs).some((i) => i.source !== 'user');
  section('Inputs and outputs', madeUp
    ? 'Some inputs had no data, so Stretto made values up to check and time with.' : null,
    table([
      {title: '', value: (t) => t.kind},
      {title: 'Name', code: true, value: (t) => t.name},
      {title: 'Type', value: (t) => t.dtype},
      {title: 'Shape', value: (t) => shape(t.shape)},
      {title: 'Values', value: (t) => (t.kind === 'input' ? source(t) : '')},
    ], rows));
}

heading();
cards();
latencySection();
preprocessSection();
operatorTotals();
operatorSection();
errorSection();
passSection();
inputSection();
noteSection();
howSection();
root.append(make('footer', {}, 'Plots by Chart.js (MIT licence). This page needs no network.'));
drawCharts();
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawCharts);
