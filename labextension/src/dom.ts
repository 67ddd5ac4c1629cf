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

export function button(className: string, label: string, onClick: () => void): HTMLButtonElement {
  const node = el('button', className, label);
  node.type = 'button';
  // JupyterLab's command-mode keys act on a focused button otherwise (`d d` would delete the cell).
  node.dataset['lmSuppressShortcuts'] = 'true';
  node.addEventListener('click', onClick);
  return node;
}
