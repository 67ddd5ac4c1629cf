/** Markdown of a model: sanitised by JupyterLab, and without anything that would load from the net by itself. */

import { MimeModel, type IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

const MEDIA = new Set(['img', 'video', 'audio']);
/** Attributes that load, ping or run a JupyterLab command; `style` can load by `url()` and lie over the page. */
const UNWANTED = /^(src|srcset|poster|background|data|ping|style|data-commandlinker-.*)$/;
/** Classes that would dress a model's HTML as part of JupyterLab or of this extension. */
const BORROWED = /^(cu|lm|p|jp(?!-RenderedMermaid))-/;
/** What MathJax would look for; text without it need not wait for MathJax to load. */
const MATH = /\$|\\[([]|\\begin\{/;

/**
 * Renderer options under which `text/markdown` fetches nothing.
 *
 * The change sits in the sanitiser, behind which JupyterLab assigns `innerHTML`: a later look at the live DOM
 * would come after the browser has begun to load.
 */
export function quietOptions(options: IRenderMime.IRendererOptions): IRenderMime.IRendererOptions {
  const { sanitizer, markdownParser, latexTypesetter } = options;
  return {
    ...options,
    mimeType: 'text/markdown',
    latexTypesetter: latexTypesetter && {
      typeset: node => (MATH.test(node.textContent) ? latexTypesetter.typeset(node) : undefined)
    },
    markdownParser: markdownParser
      ? { render: source => markdownParser.render(withoutFetchingDiagrams(source)) }
      : null,
    sanitizer: {
      allowNamedProperties: false,
      allowCommandLinker: false,
      getAutolink: () => sanitizer.getAutolink?.() ?? true,
      // The sanitiser has the last word on the string, and the first, so that no template or noscript hides tags.
      sanitize: (dirty, rules) => sanitizer.sanitize(quiet(sanitizer.sanitize(dirty, rules)).html, rules)
    }
  };
}

/** HTML without anything that loads, and how many such things there were. A parsed document is inert. */
export function quiet(html: string): { html: string; removed: number } {
  const page = new DOMParser().parseFromString(html, 'text/html');
  let removed = 0;
  for (const node of page.body.querySelectorAll('*')) {
    const source = node.getAttribute('src') ?? '';
    if (node.localName === 'img' && /^(data:image\/|blob:)/i.test(source)) {
      stripAttributes(node, ['src']);
    } else if (MEDIA.has(node.localName)) {
      node.replaceWith(placeholder(page, node.localName, source, node.getAttribute('alt') ?? ''));
      removed += 1;
    } else {
      removed += stripAttributes(node, []);
    }
    if (node.localName === 'form') {
      node.replaceWith(...node.childNodes);
    }
  }
  return { html: page.body.innerHTML, removed };
}

/** Remove what is unwanted; the number of removed attributes that could have loaded something. */
function stripAttributes(node: Element, keep: string[]): number {
  let loading = 0;
  for (const { name, value } of [...node.attributes]) {
    if (UNWANTED.test(name) && !keep.includes(name)) {
      node.removeAttribute(name);
      loading += name !== 'style' || /url|image|\\/i.test(value) ? 1 : 0;
    }
  }
  for (const name of [...node.classList]) {
    if (BORROWED.test(name)) {
      node.classList.remove(name);
    }
  }
  if (node.localName === 'a' && !(node.getAttribute('href') ?? '#').startsWith('#')) {
    node.setAttribute('target', '_blank');
  }
  return loading;
}

function placeholder(page: Document, kind: string, source: string, alt: string): HTMLElement {
  const node = page.createElement('button');
  node.className = `cu-load cu-load-${kind}`;
  node.type = 'button';
  node.value = source;
  node.title = alt ? `${alt}: ${source}` : source;
  node.textContent = `${kind === 'img' ? 'image' : kind}: ${sourceName(source)} — load`;
  return node;
}

/** The host, or the path of a file beside the notebook. */
function sourceName(source: string): string {
  const here = 'beside.invalid';
  let name = source;
  try {
    const { host, protocol } = new URL(source, `https://${here}`);
    name = host === here ? source : host || protocol;
  } catch {
    // not a URL: it names itself
  }
  return name.slice(0, 60);
}

let asked = false;

/** Have JupyterLab fetch its markdown parser while nothing streams: the first rendering would wait for it. */
export function loadMarkdown(rendermime: IRenderMimeRegistry): void {
  if (!asked && rendermime.getFactory('text/markdown')) {
    asked = true;
    window.requestIdleCallback(() => {
      const renderer = rendermime.createRenderer('text/markdown');
      const model = new MimeModel({ data: { 'text/markdown': '*ready*' }, trusted: false });
      void renderer.renderModel(model).finally(() => {
        renderer.dispose();
      });
    });
  }
}

/** Whether markdown can be rendered without loading anything from the net. */
export async function loadsNothing(source: string, parser: IRenderMime.IMarkdownParser | null): Promise<boolean> {
  if (!parser || withoutFetchingDiagrams(source) !== source) {
    return false;
  }
  return quiet(await parser.render(source)).removed === 0;
}

/** Give the placeholders and links of rendered markdown their behaviour. */
export function enliven(host: HTMLElement, resolver: IRenderMime.IResolver | null): void {
  for (const node of host.querySelectorAll<HTMLButtonElement>('button.cu-load')) {
    node.dataset['lmSuppressShortcuts'] = 'true';
    node.onclick = event => {
      event.preventDefault(); // it may stand inside a link
      void load(node, resolver);
    };
  }
  for (const anchor of host.querySelectorAll<HTMLAnchorElement>('a[target="_blank"]')) {
    anchor.rel = 'noopener noreferrer';
  }
}

async function load(node: HTMLButtonElement, resolver: IRenderMime.IResolver | null): Promise<void> {
  let source = node.value;
  if (resolver?.isLocal?.(source)) {
    source = await resolver.getDownloadUrl(await resolver.resolveUrl(source));
  }
  if (node.classList.contains('cu-load-img')) {
    const image = document.createElement('img');
    image.referrerPolicy = 'no-referrer'; // the page's address holds paths and may hold the token
    image.alt = node.title;
    image.src = source;
    node.replaceWith(image);
  } else {
    const media = document.createElement(node.classList.contains('cu-load-video') ? 'video' : 'audio');
    media.controls = true;
    media.src = source;
    node.replaceWith(media);
  }
}

/**
 * Mermaid draws in the live page before anything is sanitised, and its image shapes and styles can load.
 * A text whose diagrams could name a host shows them as code.
 */
function withoutFetchingDiagrams(source: string): string {
  const fence = /(`{3,}|~{3,})([ \t]*)mermaid/gi;
  const harmless = source.replace(/<br\s*\/?>/gi, '');
  if (fence.test(source) && /\/\/|\\|&|#\w+;|<|@\s*\{|%%\s*\{|^\s*---/m.test(harmless)) {
    return source.replace(fence, '$1$2text');
  }
  return source;
}

/**
 * Markdown in pieces that can be rendered apart: split at blank lines, but not inside a fence, a list or an
 * indented continuation.
 */
export function splitMarkdown(markdown: string): string[] {
  const pieces: string[] = [];
  let lines: string[] = [];
  let fence = '';
  let blank = false;
  for (const line of markdown.split('\n')) {
    if (!fence && line.trim() === '') {
      blank = lines.length > 0;
      lines.push(line);
      continue;
    }
    if (blank && !fence && !continues(lines[0] ?? '', line)) {
      pieces.push(lines.join('\n').trimEnd());
      lines = [];
    }
    blank = false;
    lines.push(line);
    fence = fenceAfter(fence, line);
  }
  pieces.push(lines.join('\n').trimEnd());
  return pieces.filter(piece => piece.trim() !== '');
}

const LIST_ITEM = /^\s{0,3}([-*+]|\d{1,9}[.)])\s/;

function continues(first: string, line: string): boolean {
  return /^(\t| {2})/.test(line) || (LIST_ITEM.test(first) && LIST_ITEM.test(line));
}

/** The open fence's marker after this line, or '' outside. Fences may stand in lists and quotes. */
function fenceAfter(fence: string, line: string): string {
  const marker = /^(?:\s|>|[-*+]\s|\d{1,9}[.)]\s)*(`{3,}|~{3,})(.*)$/.exec(line);
  const [, ticks = '', rest = ''] = marker ?? [];
  if (!ticks) {
    return fence;
  }
  if (!fence) {
    return ticks.startsWith('`') && rest.includes('`') ? '' : ticks;
  }
  const closes = ticks[0] === fence[0] && ticks.length >= fence.length && rest.trim() === '';
  return closes ? '' : fence;
}
