/**
 * A panel drawn from its nodes: what is seen without a kernel. The kernel's own widgets, where they live, take its
 * place; they carry the same classes, and both are dressed by the style sheet that stands beside the Python code.
 */

import { View } from './blocks/view';
import { el, isRightToLeft, scrolling } from './dom';
import type { PanelBlock, PanelNode } from './protocol';

export class PanelView extends View {
  constructor() {
    super();
    this.addClass('cu-panel');
    this.node.setAttribute('role', 'group');
  }

  draw(block: PanelBlock): void {
    this.node.setAttribute('aria-label', block.summary);
    this.toggleClass('cu-rtl', isRightToLeft(clean(block.summary)));
    this.node.replaceChildren(...column(nodes(block.root)));
  }
}

const STATUS = new Map([
  ['success', '✓'],
  ['warning', '!'],
  ['danger', '✗'],
  ['info', 'i']
]);
const NUMBER = /^[−+-]?[$€£¥]?\s?\d[\d.,\s]*(?:e[+-]?\d+)?\s?[%‰$€£¥]?$/;
const EMPTY = new Set(['', '–', '—', '-']);
/** Terminal controls, and marks that reorder what stands behind them. */
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

const DRAW: Record<string, (node: PanelNode) => HTMLElement> = {
  Text: node => marked(`cu-p-text${node['tone'] === 'muted' ? ' cu-p-muted' : ''}`, text(node, 'value')),
  Heading: heading,
  Badge: node => withState(auto(el('span', 'cu-p-badge')), text(node, 'status'), text(node, 'label')),
  KeyValue: keyValue,
  Table: table,
  CodeBlock: code,
  Alert: alert,
  Divider: () => el('hr', 'cu-p-rule'),
  Link: link,
  Card: card,
  Stack: stack,
  Slider: input,
  Select: input,
  Toggle: input,
  TextInput: input,
  Button: node => el('div', 'cu-p-input', auto(el('span', 'cu-p-button', text(node, 'label')))),
  Output: output
};

function drawn(node: PanelNode): HTMLElement {
  const draw = Object.hasOwn(DRAW, node.component) ? DRAW[node.component] : undefined;
  return draw ? draw(node) : el('div', 'cu-p-text cu-p-muted', `[${node.component}]`);
}

/** Nodes below each other; badges that follow each other share a line. */
function column(children: PanelNode[]): HTMLElement[] {
  const parts: HTMLElement[] = [];
  let line: HTMLElement | undefined;
  for (const child of children) {
    if (child.component === 'Badge') {
      if (!line) {
        line = el('div', 'cu-p-badges');
        parts.push(line);
      }
      line.append(drawn(child));
    } else {
      line = undefined;
      parts.push(drawn(child));
    }
  }
  return parts;
}

// ---- reading ----

function clean(value: unknown): string {
  return (typeof value === 'string' || typeof value === 'number' ? String(value) : '').replace(CONTROLS, '');
}

function text(node: object, field: string): string {
  return clean((node as Record<string, unknown>)[field]);
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function nodes(value: unknown): PanelNode[] {
  return list(value).filter((each): each is PanelNode => typeof (each as PanelNode | null)?.component === 'string');
}

// ---- drawing ----

function auto<T extends HTMLElement>(node: T): T {
  node.dir = 'auto';
  return node;
}

/** Plain text in which `code` and **bold** are set as such. */
function marked(className: string, value: string): HTMLElement {
  const node = auto(el('div', className));
  let end = 0;
  for (const match of value.matchAll(/`([^`\n]+)`|\*\*(?=\S)(.+?)(?<=\S)\*\*/g)) {
    const [whole, inCode, inBold = ''] = match;
    node.append(value.slice(end, match.index), inCode ? el('code', '', inCode) : el('b', '', inBold));
    end = match.index + whole.length;
  }
  node.append(value.slice(end));
  return node;
}

function withState<T extends HTMLElement>(node: T, status: string, ...children: (Node | string)[]): T {
  node.dataset['status'] = status;
  const sign = STATUS.get(status);
  if (sign) {
    const mark = el('span', 'cu-p-mark', sign);
    mark.setAttribute('role', 'img');
    mark.setAttribute('aria-label', status);
    node.append(mark);
  }
  node.append(...children);
  return node;
}

function heading(node: PanelNode): HTMLElement {
  const level = node['level'] === 1 ? 1 : node['level'] === 3 ? 3 : 2;
  const tag = ({ 1: 'h3', 2: 'h4', 3: 'h5' } as const)[level];
  return auto(el(tag, `cu-p-heading cu-p-h${level}`, text(node, 'value')));
}

function keyValue(node: PanelNode): HTMLElement {
  const pairs = list(node['items']).map(item => {
    const pair = typeof item === 'object' && item !== null ? item : {};
    return el('div', 'cu-p-pair', auto(el('dt', '', text(pair, 'label'))), auto(el('dd', '', text(pair, 'value'))));
  });
  return el('dl', 'cu-p-kv', ...pairs);
}

function table(node: PanelNode): HTMLElement {
  const columns = list(node['columns']).map(clean);
  const rows = list(node['rows']).map(row => list(row).map(clean));
  const kinds = columns.map((_, at) => (isNumeric(rows.map(row => row[at] ?? '')) ? 'cu-p-num' : ''));
  const heads = columns.map((name, at) => {
    const head = auto(el('th', kinds[at], name));
    head.scope = 'col';
    return head;
  });
  const body = rows.map(row => el('tr', '', ...columns.map((_, at) => auto(el('td', kinds[at], row[at] ?? '')))));
  const drawnTable = el('table', 'cu-p-table', el('thead', '', el('tr', '', ...heads)), el('tbody', '', ...body));
  return scrolling(el('div', 'cu-p-scroll', drawnTable), `table: ${columns.join(', ')}`);
}

function isNumeric(cells: string[]): boolean {
  const filled = cells.map(cell => cell.trim()).filter(cell => !EMPTY.has(cell));
  return filled.length > 0 && filled.every(cell => NUMBER.test(cell));
}

function code(node: PanelNode): HTMLElement {
  const language = text(node, 'language');
  const pre = scrolling(el('pre', '', el('code', '', text(node, 'code'))), `code ${language}`.trim());
  pre.dir = 'ltr';
  return el('div', 'cu-p-code', ...(language ? [el('div', 'cu-p-language', language)] : []), pre);
}

function alert(node: PanelNode): HTMLElement {
  const title = text(node, 'title');
  const titled = title ? [auto(el('div', 'cu-p-title', title))] : [];
  const said = el('div', 'cu-p-said', ...titled, marked('cu-p-text', text(node, 'body')));
  const box = withState(el('div', 'cu-p-alert'), text(node, 'variant'), said);
  box.setAttribute('role', 'note');
  return box;
}

/** Only to the web and to mail; where it goes is shown. */
function link(node: PanelNode): HTMLElement {
  const label = text(node, 'label');
  const href = text(node, 'href');
  const place = linkPlace(href);
  if (!place) {
    return auto(el('div', 'cu-p-link', label, ' ', el('span', 'cu-p-host', href)));
  }
  const anchor = auto(el('a', '', label));
  anchor.href = href;
  anchor.target = '_blank';
  anchor.rel = 'noopener noreferrer';
  return auto(el('div', 'cu-p-link', anchor, ' ', el('span', 'cu-p-host', `${place} ↗`)));
}

function linkPlace(href: string): string {
  try {
    const { protocol, hostname, pathname } = new URL(href);
    return protocol === 'mailto:' ? pathname : protocol === 'https:' || protocol === 'http:' ? hostname : '';
  } catch {
    return '';
  }
}

/** The badges that lead a card's children stand beside its title. */
function card(node: PanelNode): HTMLElement {
  const title = text(node, 'title');
  const children = nodes(node['children']);
  const first = children.findIndex(child => child.component !== 'Badge');
  const count = title ? (first < 0 ? children.length : first) : 0;
  const badges = children.slice(0, count).map(drawn);
  const head = title ? [el('div', 'cu-p-head', auto(el('span', 'cu-p-title', title)), ...badges)] : [];
  return el('div', 'cu-p-card', ...head, ...column(children.slice(count)));
}

function stack(node: PanelNode): HTMLElement {
  const gap = node['gap'] === 'sm' || node['gap'] === 'lg' ? node['gap'] : 'md';
  const children = nodes(node['children']);
  return node['direction'] === 'horizontal'
    ? el('div', `cu-p-row cu-p-gap-${gap}`, ...children.map(drawn))
    : el('div', `cu-p-column cu-p-gap-${gap}`, ...column(children));
}

// ---- inputs, as they stood ----

function input(node: PanelNode): HTMLElement {
  const { value } = node;
  const shown = value === true ? 'on' : value === false ? 'off' : clean(value) || '–';
  const name = auto(el('span', '', text(node, 'label') || text(node, 'variable')));
  return el('div', 'cu-p-input', name, auto(el('span', 'cu-p-value', shown)));
}

function output(node: PanelNode): HTMLElement {
  const parts = list(node['shown']).map(part => {
    const png = text(part as object, 'png');
    if (!/^[A-Za-z0-9+/\s]+={0,2}\s*$/.test(png)) {
      return auto(el('pre', '', text(part as object, 'text')));
    }
    const image = el('img');
    image.alt = 'output of the panel';
    image.src = `data:image/png;base64,${png}`;
    return image;
  });
  return el('div', 'cu-p-output', ...parts);
}

// ---- alive ----

let labels = 0;

/** Give a live panel's sliders and figures the names that ipywidgets leaves out, for screen readers. */
export function nameParts(panel: Element): void {
  for (const handle of panel.querySelectorAll('.noUi-handle:not([aria-labelledby])')) {
    const label = handle.closest('.cu-p-live')?.querySelector('.widget-label');
    if (label) {
      label.id ||= `cu-p-label-${(labels += 1)}`;
      handle.setAttribute('aria-labelledby', label.id);
    }
  }
  for (const image of panel.querySelectorAll('.cu-p-output img:not([alt])')) {
    image.setAttribute('alt', 'output of the panel');
  }
}
