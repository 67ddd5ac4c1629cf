/** Small helpers to build DOM. Text only: nothing here takes HTML. */

type Child = Node | string;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  node.className = className;
  node.append(...children);
  return node;
}

/** Set text only when it differs, so that a selection in it survives an update. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Text whose direction follows its own first strong letter. */
export function prose(className: string, text: string): HTMLSpanElement {
  const node = el('span', className, text);
  node.dir = 'auto';
  return node;
}

/** Whether most letters run from right to left: one Latin name in front does not turn a sentence. */
export function isRightToLeft(text: string): boolean {
  const letters = text.slice(0, 2000).match(/\p{L}/gu) ?? [];
  const turned = letters.filter(each => /[\p{sc=Arab}\p{sc=Hebr}\p{sc=Syrc}\p{sc=Thaa}\p{sc=Nkoo}\p{sc=Adlm}]/u.test(each));
  return turned.length * 2 > letters.length;
}

/** What scrolls must be reached by keyboard. */
export function scrolling<T extends HTMLElement>(node: T, label: string): T {
  node.tabIndex = 0;
  node.setAttribute('role', 'region');
  node.setAttribute('aria-label', label);
  node.dataset['lmSuppressShortcuts'] = 'true';
  return node;
}

export function button(className: string, label: string, onClick: () => void): HTMLButtonElement {
  const node = el('button', className, label);
  node.type = 'button';
  // JupyterLab's command-mode keys act on a focused button otherwise (`d d` would delete the cell).
  node.dataset['lmSuppressShortcuts'] = 'true';
  node.addEventListener('click', onClick);
  return node;
}
