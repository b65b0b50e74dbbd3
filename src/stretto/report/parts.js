// What the pages are made of: the data, numbers as text, tables and plots. All text from the data
// goes through textContent.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const root = document.getElementById('report');
const charts = [];

// ---- small things ---------------------------------------------------------------------------

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

const isNumber = (x) => typeof x === 'number' && Number.isFinite(x);
const list = (x) => (Array.isArray(x) ? x : []);
const object = (x) => (x && typeof x === 'object' && !Array.isArray(x) ? x : {});
const sum = (values) => values.reduce((a, b) => a + b, 0);

function digits(x, significant = 3) {
  if (!isNumber(x)) return '–';
  if (x === 0) return '0';
  const whole = Math.floor(Math.log10(Math.abs(x)));
  return x.toFixed(Math.min(6, Math.max(0, significant - 1 - whole)));
}
const ms = (x) => (isNumber(x) ? `${digits(x)} ms` : '–');
const percent = (x) => (isNumber(x) ? `${(100 * x).toFixed(x < 0.0995 ? 1 : 0)} %` : '–');
const times = (x) => (isNumber(x) ? `${x.toFixed(2)}×` : '–');
const faster = (x) => (isNumber(x) ? (x >= 1 ? `${times(x)} faster` : `${times(1 / x)} slower`) : '–');
const scientific = (x) => (isNumber(x) ? (x === 0 ? '0' : x.toExponential(1)) : '–');
function bytes(x) {
  if (!isNumber(x) || x <= 0) return '–';
  const step = Math.min(3, Math.floor(Math.log2(x) / 10));
  return `${digits(x / 1024 ** step)} ${['B', 'KiB', 'MiB', 'GiB'][step]}`;
}
function seconds(x) {
  if (!isNumber(x)) return '–';
  return x < 0.1 ? `${digits(x * 1e3)} ms` : `${digits(x)} s`;
}
const shape = (x) => (list(x).length ? list(x).join('×') : 'scalar');
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function section(title, note, ...children) {
  const content = children.flat().filter(Boolean);
  if (content.length) {
    root.append(make('section', {}, make('h2', {}, title), note && make('p', {class: 'note'}, note),
                     content));
  }
}

// ---- tables: click a title to sort, type to search ------------------------------------------

// columns: {title, number, code, value(row) for sorting and searching, show(row) for the cell}
function table(columns, rows, {search = false, rowClass = () => undefined} = {}) {
  if (!rows.length) return null;
  const body = make('tbody');
  const entries = rows.map((row) => {
    const cells = columns.map((c) => {
      const kind = [c.number && 'number', c.code && 'code'].filter(Boolean).join(' ');
      return make('td', {class: kind || undefined}, c.show ? c.show(row) : String(c.value(row) ?? '–'));
    });
    const keys = columns.map((c) => c.value(row));
    return {element: make('tr', {class: rowClass(row)}, cells), keys,
            text: keys.filter((k) => k !== undefined && k !== null).join(' ').toLowerCase()};
  });
  body.append(...entries.map((e) => e.element));
  const heads = columns.map((c, index) => {
    const head = make('th', {class: c.number ? 'number' : undefined, tabindex: '0'}, c.title);
    const sort = () => {
      const up = head.getAttribute('aria-sort') === (c.number ? 'descending' : 'ascending') ? !c.number
                                                                                            : c.number;
      heads.forEach((h) => h.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', up ? 'descending' : 'ascending');
      const sign = up ? -1 : 1;
      entries.sort((a, b) => sign * compare(a.keys[index], b.keys[index]));
      body.append(...entries.map((e) => e.element));
    };
    head.addEventListener('click', sort);
    head.addEventListener('keydown', (event) => { if (event.key === 'Enter') sort(); });
    return head;
  });
  const whole = make('div', {class: 'scroll'},
                     make('table', {}, make('thead', {}, make('tr', {}, heads)), body));
  if (!search || rows.length < 6) return whole;
  const count = make('span', {class: 'note', style: 'margin:0'}, `${rows.length} rows`);
  const field = make('input', {type: 'search', placeholder: 'Search', 'aria-label': 'Search'});
  field.addEventListener('input', () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const entry of entries) {
      const fits = words.every((w) => entry.text.includes(w));
      entry.element.hidden = !fits;
      shown += fits;
    }
    count.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
  });
  return [make('div', {class: 'tools'}, field, count), whole];
}

function compare(a, b) {
  const missing = (x) => x === undefined || x === null;
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
}

function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '–' &&
                                            value !== '');
  if (!known.length) return null;
  return make('dl', {}, known.map(([name, value]) => [make('dt', {}, name),
                                                     make('dd', {}, String(value))]));
}

// ---- plots -----------------------------------------------------------------------------------

// Horizontal bars. series: {label, values, color: (index) => CSS variable}
function bars(labels, series, {unit = 'ms', stacked = false} = {}) {
  if (!labels.length) return null;
  const canvas = make('canvas', {role: 'img', 'aria-label': series.map((s) => s.label).join(', ')});
  const perLabel = stacked ? 1 : series.length;
  const height = 52 + labels.length * (10 + 16 * perLabel);
  const draw = () => new Chart(canvas, {
    type: 'bar',
    data: {labels, datasets: series.map((s) => ({
      label: s.label, data: s.values, borderRadius: 3, maxBarThickness: 22,
      backgroundColor: labels.map((_, i) => color(s.color(i))),
    }))},
    options: {
      indexAxis: 'y', animation: false, responsive: true, maintainAspectRatio: false,
      scales: {
        x: {beginAtZero: true, stacked, grid: {color: color('--line')}, title: {display: true, text: unit,
            color: color('--soft')}, ticks: {color: color('--soft')}},
        y: {stacked, grid: {display: false}, ticks: {color: color('--ink'), autoSkip: false}},
      },
      plugins: {
        legend: {display: series.length > 1, labels: {color: color('--ink'), boxWidth: 14}},
        tooltip: {callbacks: {label: (item) => `${item.dataset.label}: ${digits(item.raw)} ${unit}`}},
      },
    },
  });
  charts.push({draw, chart: null});
  return make('div', {class: 'plot', style: `height:${height}px`}, canvas);
}

function drawCharts() {
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  for (const entry of charts) {
    if (entry.chart) entry.chart.destroy();
    entry.chart = entry.draw();
  }
}

